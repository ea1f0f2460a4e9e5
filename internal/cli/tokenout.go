package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/headgate/headgate/internal/tokenfile"
)

// tokenOut says where the entry of a token goes that was made.
type tokenOut struct {
	Out string `env:"-" type:"path" placeholder:"FILE" help:"Add what belongs under tokens: to this file, which is made where there is none, and print the token alone. Default: print both."`
}

// print prints a token, and puts lines, its entry, where they are to go. setting names the
// file that is for, and load reads one.
func (o tokenOut) print(std *stdio, token, lines, setting string, load func(path string) error) error {
	text := fmt.Sprintf("%s\n\n# Under tokens: in the file of %s:\n%s", token, setting, lines)
	if o.Out != "" {
		if err := addToken(o.Out, lines, load); err != nil {
			return &codeError{exitUsage, err}
		}
		text = token + "\n"
	}
	_, err := fmt.Fprint(std.out, text)
	return err
}

// addToken adds an entry to the file at path, or makes it. A file that would be none
// afterwards is left as it is.
func addToken(path, lines string, load func(path string) error) error {
	before, err := os.ReadFile(path)
	mode := fs.FileMode(0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(before)) == "":
		before = []byte("tokens:\n")
	case err != nil:
		return fmt.Errorf("--out: %w", err)
	case len(before) > tokenfile.MaxFile:
		return fmt.Errorf("--out: %s has more than %d bytes; hint: is it the right file?", path, tokenfile.MaxFile)
	default:
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		mode = info.Mode().Perm()
		if before[len(before)-1] != '\n' {
			before = append(before, '\n')
		}
	}
	// Beside it, so that who reads it again meanwhile finds one or the other.
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return fmt.Errorf("--out: write %s: %w", path, at.Err) // and not the name that was drawn
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer os.Remove(next.Name()) // where it is not there any more, nothing is left to remove
	_, err = next.Write(append(before, lines...))
	err = errors.Join(err, next.Chmod(mode), next.Close())
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if err := load(next.Name()); err != nil {
		return fmt.Errorf("--out: %s cannot have another token at its end, and is left as it is: %s; hint: tokens: has to be its last section; without --out the entry is printed", path, strings.ReplaceAll(err.Error(), next.Name(), path))
	}
	if err := os.Rename(next.Name(), path); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}
