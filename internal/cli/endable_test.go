package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
)

// What has nothing to read ends with the command: where it is still being opened, as a named pipe without a
// writer, and where it is being read.
func TestEndable(t *testing.T) {
	for name, open := range map[string]func(hung io.ReadCloser) (io.ReadCloser, error){
		"opened": func(hung io.ReadCloser) (io.ReadCloser, error) {
			_, _ = io.ReadAll(hung)
			return nil, fs.ErrClosed
		},
		"read": func(hung io.ReadCloser) (io.ReadCloser, error) { return hung, nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			hung, release := io.Pipe()
			ctx, end := context.WithCancel(t.Context())
			w := untilEnd(ctx, func() (io.ReadCloser, error) { return open(hung) })
			read := make(chan error)
			go func() {
				_, err := io.ReadAll(w)
				read <- err
			}()
			synctest.Wait()
			end()
			if err := <-read; !errors.Is(err, errInterrupted) {
				t.Errorf("%s: %v", name, err)
			}
			w.Close()
			release.Close() // the goroutine ends
		})
	}
}

// What is there is read whole, and what cannot be opened is told.
func TestEndableReads(t *testing.T) {
	std := (&stdio{in: strings.NewReader(strings.Repeat("line\n", 50_000))}).until(t.Context())
	if text, err := io.ReadAll(std.in); err != nil || len(text) != 250_000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	w := untilEnd(t.Context(), func() (io.ReadCloser, error) { return nil, fs.ErrPermission })
	if _, err := io.ReadAll(w); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := untilEnd(t.Context(), nil).Close(); err != nil {
		t.Errorf("nothing was read: %v", err)
	}
}

// Who writes to an input that is closed is told so, and waits no longer.
func TestEndableIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		w := untilEnd(t.Context(), func() (io.ReadCloser, error) { return from, nil })
		go io.ReadFull(w, make([]byte, 3))
		if _, err := io.WriteString(to, "abc"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.Close()
		_, _ = io.WriteString(to, "d") // is taken, and finds nobody
		if _, err := io.WriteString(to, "e"); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%v", err)
		}
	})
}
