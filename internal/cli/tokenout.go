package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/tokenfile"
)

// tokenOut says how long a token is good that is made, and where its entry goes.
type tokenOut struct {
	Expires time.Duration `env:"-" placeholder:"TIME" help:"How long from now it is good, such as 2160h. Default: until it is deleted from the file."`

	Out string `env:"-" type:"path" placeholder:"FILE" help:"Add what belongs under tokens: to this file, which is made where there is none, and print the token alone. Default: print both."`
}

// print prints a token that is made, and puts lines, its entry, where they are to go. setting names the
// file that is for, and load reads one.
func (o tokenOut) print(std *stdio, made func(expires time.Time) (token, lines string, err error), setting string, load func(path string) error) error {
	var expires time.Time
	switch {
	case o.Expires < 0:
		return &codeError{exitUsage, fmt.Errorf("--expires %v: it would be over; hint: 2160h", o.Expires)}
	case o.Expires > 0:
		expires = time.Now().Add(o.Expires)
	}
	token, lines, err := made(expires)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	text := fmt.Sprintf("%s\n\n# Under tokens: in the file of %s:\n%s", token, setting, lines)
	if o.Out != "" {
		if err := addToken(o.Out, lines, load); err != nil {
			return &codeError{exitUsage, err}
		}
		text = token + "\n"
	}
	_, err = fmt.Fprint(std.out, text)
	return err
}

// tokensSection is the line by which a file says that its tokens come. One that names issuers or
// certificates alone has none.
var tokensSection = regexp.MustCompile(`(?m)^tokens[ \t]*:`)

// addToken adds an entry to the file at path, or makes it. A file that would be none
// afterwards is left as it is.
func addToken(path, lines string, load func(path string) error) error {
	before, err := os.ReadFile(path)
	replace := rulesource.Renew
	if errors.Is(err, fs.ErrNotExist) {
		replace, err = rulesource.Replace, nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("--out: %w", err)
	case len(before) > tokenfile.MaxFile:
		return fmt.Errorf("--out: %s has more than %d bytes; hint: is it the right file?", path, tokenfile.MaxFile)
	case strings.TrimSpace(string(before)) == "":
		before = nil
	case before[len(before)-1] != '\n':
		before = append(before, '\n')
	}
	if !tokensSection.Match(before) {
		before = append(before, "tokens:\n"...)
	}
	// Whole, so that who reads it again meanwhile finds one or the other.
	if err := replace(path, func(next *os.File) error {
		if _, err := next.Write(append(before, lines...)); err != nil {
			return err
		}
		if err := load(next.Name()); err != nil {
			return fmt.Errorf("%s cannot have another token at its end, and is left as it is: %s; hint: tokens: has to be its last section; without --out the entry is printed", path, strings.ReplaceAll(err.Error(), next.Name(), path))
		}
		return nil
	}); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}
