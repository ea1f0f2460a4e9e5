package main

import (
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var published = flag.String("published", "", "directory of a release of this machine's target, which TestPublished runs")

// TestPublished runs what a release of the real program has for this machine: the program of
// the archive says its version and makes a page, and the program of the image serves, alone
// in its file system and as its user. scripts/release-check.sh builds the release.
func TestPublished(t *testing.T) {
	if *published == "" {
		t.Skip("no release is named; hint: make release-check")
	}
	if os.Getuid() != 0 {
		t.Fatal("to run a program alone in a file system takes root")
	}
	dir := t.TempDir()
	version := publishedVersion(t)
	root := unpackImage(t, dir, filepath.Join(*published, "headgate_"+version+"_image.tar"), version)
	open(t, dir, root)
	for _, name := range []string{"/bin/headgate", "/bin/ratelimit"} {
		out, err := inRoot(root, name, "--version").CombinedOutput()
		if name == "/bin/headgate" && (err != nil || !strings.HasPrefix(string(out), "headgate v"+version+" ")) {
			t.Errorf("%s --version: %q, %v", name, out, err)
		}
	}
	serves(t, root)
}

// publishedVersion reads the version from the names of the files.
func publishedVersion(t *testing.T) string {
	t.Helper()
	images, err := filepath.Glob(filepath.Join(*published, "headgate_*_image.tar"))
	if err != nil || len(images) != 1 {
		t.Fatalf("images in %s: %q, %v", *published, images, err)
	}
	name := strings.TrimPrefix(filepath.Base(images[0]), "headgate_")
	return strings.TrimSuffix(name, "_image.tar")
}

// serves starts the program of an image as a container would, and asks it.
func serves(t *testing.T, root string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	process := inRoot(root, "/bin/headgate", "serve", "--http-addr", addr, "--grpc-addr", "", "--ops-addr", "", "--state-dir", "/var/lib/headgate")
	var said strings.Builder
	process.Stdout, process.Stderr = &said, &said
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := process.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := process.Wait(); err != nil {
			t.Errorf("it ends by %v:\n%s", err, said.String())
		}
	}()
	const check = `{"key":"user:42","limit":1,"window_ms":3600000}`
	var got []int
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for late := time.After(time.Minute); len(got) < 2; {
		answer, err := http.Post("http://"+addr+"/v1/check", "application/json", strings.NewReader(check))
		if err != nil { // it does not listen yet
			select {
			case <-look.C:
				continue
			case <-late:
				t.Fatal(err)
			}
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		got = append(got, answer.StatusCode)
	}
	if len(got) != 2 || got[0] != http.StatusOK || got[1] != http.StatusTooManyRequests {
		t.Errorf("two checks of one are answered %v", got)
	}
}
