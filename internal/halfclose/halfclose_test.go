package halfclose_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/headgate/headgate/internal/halfclose"
)

// TestWrite: who has said all can still hear the answer.
func TestWrite(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mine, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if err := halfclose.Write(mine); err != nil {
		t.Fatal(err)
	}
	if heard, err := io.ReadAll(theirs); err != nil || len(heard) > 0 {
		t.Fatalf("the end of what was sent: %q, %v", heard, err)
	}
	if _, err := theirs.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if heard, err := io.ReadAll(mine); err != nil || string(heard) != "answer" {
		t.Errorf("heard %q, %v", heard, err)
	}
}

func TestWriteWhereBothDirectionsAreOne(t *testing.T) {
	mine, theirs := net.Pipe()
	defer mine.Close()
	defer theirs.Close()
	if err := halfclose.Write(mine); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
