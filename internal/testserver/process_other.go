//go:build !linux

package testserver

import "os/exec"

// dieWithParent does nothing where the kernel has no such service.
func dieWithParent(*exec.Cmd) {}
