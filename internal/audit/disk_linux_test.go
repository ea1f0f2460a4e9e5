package audit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/internal/eventually"
)

// onSmallDisk runs test on a real file system of 512 KiB.
func onSmallDisk(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512k,mode=700"); err != nil {
		t.Skipf("mount: %v; hint: run as root", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	test(t, dir)
}

func TestFullDisk(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, dir string) {
		for _, settings := range []string{"fsync=always&compress=none", "fsync=never&compress=none", "fsync=1ms"} {
			t.Run(settings, func(t *testing.T) { testFullDisk(t, filepath.Join(dir, "events"), dir, settings) })
		}
	})
}

func testFullDisk(t *testing.T, dir, disk, settings string) {
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 400<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	s := opened(t, dir, settings, SinkOptions{Node: "n", Buffer: 1000})
	for part := range slices.Chunk(ids("e", 1000), 64) { // some 280 KiB
		s.Write(batch(part...))
	}
	eventually.True(t, "full", func() bool {
		_, _, err := s.Counts()
		return errors.Is(err, syscall.ENOSPC)
	})
	before, failed, _ := s.Counts()
	if before == 0 || before >= 1000 || failed != 0 {
		t.Errorf("%d written, %d failed on a full disk", before, failed)
	}
	for _, path := range list(t, dir) {
		readFile(t, path) // fails on a torn line
	}
	s.Write(batch(ids("f", 1000)...)) // of which as many may wait as are written
	if _, failed, _ = s.Counts(); failed != 1000-before {
		t.Errorf("%d failed, want %d", failed, 1000-before)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	written(t, s, 1000+before)
	ends(t, s)
	all := readAll(t, dir)
	if diff := cmp.Diff(append(ids("e", 1000), ids("f", int(before))...), all); diff != "" {
		t.Error(diff)
	}
	if w, f, err := s.Counts(); w != 1000+before || f != failed || err != nil {
		t.Errorf("%d written, %d failed, %v", w, f, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=512k"); err != nil {
		t.Fatal(err)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, disk string) {
		if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Skipf("remount: %v", err)
		}
		dir := filepath.Join(disk, "events")
		if s, err := OpenFiles("file://"+dir, SinkOptions{Node: "n"}); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "hint: ") {
			t.Fatalf("opened %v in a directory that cannot be written: %v", s, err)
		}
		if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=512k"); err != nil {
			t.Fatal(err)
		}
		s := opened(t, dir, "", SinkOptions{Node: "n"})
		if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		s.Write(batch("a"))
		eventually.True(t, "noticed", func() bool {
			_, _, err := s.Counts()
			return errors.Is(err, syscall.EROFS)
		})
		if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=512k"); err != nil {
			t.Fatal(err)
		}
		written(t, s, 1)
		ends(t, s)
		if got := readAll(t, dir); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%v", got)
		}
	})
}
