package testserver

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the server when the test binary ends
// without cleaning up, as it does when a test times out.
func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
