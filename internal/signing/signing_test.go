package signing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestManyKeys: so many keys are believed, and not one more.
func TestManyKeys(t *testing.T) {
	var text []byte
	path := filepath.Join(t.TempDir(), "keys.pem")
	for n := 1; n <= maxKeys+1; n++ {
		_, public := testserver.SigningKeys(t)
		one, err := os.ReadFile(public)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, one...)
		write(t, path, text)
		if v, err := LoadVerifier(path); (err == nil) != (n <= maxKeys) || err == nil && len(v.keys) != n {
			t.Errorf("%d keys: %v", n, err)
		}
	}
}

// TestSigned: a text is believed as it was signed, by a key that is listed, and in no
// other way.
func TestSigned(t *testing.T) {
	private, public := testserver.SigningKeys(t)
	_, stranger := testserver.SigningKeys(t)
	signer, err := LoadSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	one, err1 := LoadVerifier(public)
	other, err2 := LoadVerifier(stranger)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	signature := signer.Sign([]byte("text"))
	if !one.Signed([]byte("text"), signature) {
		t.Error("what was signed is refused")
	}
	if one.Signed([]byte("texts"), signature) || other.Signed([]byte("text"), signature) || one.Signed([]byte("text"), "") {
		t.Error("what was not signed is believed")
	}
	for i := range signature { // also one that only differs where base64 has no bits
		forged := []byte(signature)
		forged[i] ^= 1
		if one.Signed([]byte("text"), string(forged)) {
			t.Errorf("another signature is believed: letter %d", i)
		}
	}
	both := filepath.Join(t.TempDir(), "both.pem")
	first, err1 := os.ReadFile(stranger)
	second, err2 := os.ReadFile(public)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	write(t, both, append(first, second...))
	if two, err := LoadVerifier(both); err != nil || !two.Signed([]byte("text"), signature) {
		t.Errorf("the second key of a file is not asked: %v", err)
	}
	// Of the last letter before the padding four bits say nothing.
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	last := len(strings.TrimRight(signature, "=")) - 1
	for more := range 16 {
		same := []byte(signature)
		same[last] = letters[strings.IndexByte(letters, same[last])&^15|more]
		if string(same) != signature && one.Signed([]byte("text"), string(same)) {
			t.Errorf("%s is believed beside %s", same, signature)
		}
	}
	if one.Equal(other) || !one.Equal(one) {
		t.Error("keys are not compared")
	}
}

// TestBadKeyFiles: files that hold no such keys are refused, and nothing of them is told.
func TestBadKeyFiles(t *testing.T) {
	private, public := testserver.SigningKeys(t)
	large := filepath.Join(t.TempDir(), "large")
	write(t, large, make([]byte, maxKeyFile+1))
	for _, path := range []string{private, large, filepath.Join(t.TempDir(), "absent")} {
		if _, err := LoadVerifier(path); err == nil || strings.Contains(err.Error(), "PRIVATE") || strings.Contains(err.Error(), "more than") != (path == large) {
			t.Errorf("%v", err)
		}
	}
	for _, path := range []string{public, large} {
		if _, err := LoadSigner(path); err == nil || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%v", err)
		}
	}
}

// TestShared: a key that everybody on the machine may read or change is told, and one of the
// owner or of a group is not.
func TestShared(t *testing.T) {
	private, _ := testserver.SigningKeys(t)
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: false, 0o644: true, 0o604: true, 0o602: true} {
		if err := os.Chmod(private, mode); err != nil {
			t.Fatal(err)
		}
		if s, err := LoadSigner(private); err != nil || s.Shared() != want {
			t.Errorf("%o: %v, want %v", mode, err, want)
		}
	}
}
