package testserver

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"sync"
)

// javaCompiler is how Java lists the module that compiles.
var javaCompiler = regexp.MustCompile(`(?m)^jdk\.compiler@`)

// JavaCompiler returns the path of a java that can compile. Debian's packages of the runtime can,
// by a module without a command; others may not. Its error says what there is in its place.
var JavaCompiler = sync.OnceValues(func() (string, error) {
	path, err := exec.LookPath("java")
	if err != nil {
		return "", err
	}
	modules, err := exec.Command(path, "--list-modules").Output()
	if err != nil {
		return "", fmt.Errorf("%s --list-modules: %w", path, err)
	}
	if !javaCompiler.Match(modules) {
		return "", errors.New(path + " has no compiler, the module jdk.compiler; hint: install a JDK, or run `make deps`")
	}
	return path, nil
})
