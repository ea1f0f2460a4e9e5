package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGenerated: the code in the tree is that of its .proto files.
func TestGenerated(t *testing.T) {
	const root = "../.."
	made, err := generate(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if len(made) == 0 {
		t.Fatal("no code was made")
	}
	for name, content := range made {
		there, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(there) != content {
			t.Errorf("%s is not what is made of the .proto files; hint: make proto", name)
		}
	}
}
