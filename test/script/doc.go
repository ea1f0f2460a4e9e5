// Package script tests the command line of headgate as a person uses it: each
// file in testdata is a script of commands and what they must say. Package
// testscript of rogpeppe/go-internal describes the language; script_test.go adds
// serve, signal, log, await and http to it.
package script
