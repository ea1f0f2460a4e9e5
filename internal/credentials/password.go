package credentials

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/headgate/headgate/internal/regular"
)

// maxPassword bounds the bytes of a file with a password.
const maxPassword = 4096

// ReadPassword returns the password that stands alone in the file at path, without the
// ends of lines after it. Errors are of type *FileError and hold nothing of the file.
func ReadPassword(path string) (string, error) { return readWord("password", path) }

// ReadToken is ReadPassword for a token.
func ReadToken(path string) (string, error) { return readWord("token", path) }

// readWord reads the file of a word, which errors call what.
func readWord(what, path string) (string, error) {
	text, err := regular.Read(path, maxPassword)
	if err != nil {
		return "", &FileError{What: what + " file", Path: path, Err: err}
	}
	word := strings.TrimRight(string(text), "\r\n")
	switch {
	case word == "":
		err = errors.New("it is empty")
	case strings.ContainsAny(word, "\r\n\x00"):
		err = fmt.Errorf("it holds more than one line; a %s is one", what)
	}
	if err != nil {
		return "", &FileError{What: what + " file", Path: path, Err: err}
	}
	return word, nil
}

// maxFile bounds the bytes of other files with credentials.
const maxFile = 64 << 10

// ReadFile returns the bytes of a file with credentials, which errors call what. Errors are of
// type *FileError and hold nothing of the file.
func ReadFile(what, path string) ([]byte, error) {
	text, err := regular.Read(path, maxFile)
	if err != nil {
		return nil, &FileError{What: what, Path: path, Err: err}
	}
	return text, nil
}

// FileError says which file cannot be used, and why.
type FileError struct {
	// What the file is for.
	What, Path string
	Err        error
}

// Error implements error.
func (e *FileError) Error() string {
	if path, ok := errors.AsType[*os.PathError](e.Err); ok {
		return fmt.Sprintf("%s %s: %v", e.What, e.Path, path.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.What, e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }
