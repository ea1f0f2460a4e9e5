package conn

import "testing"

func TestCRC16(t *testing.T) {
	for text, want := range map[string]uint16{
		"123456789": 0x31C3,
		"":          0,
		"A":         0x58E5,
		"foo":       44950,
	} {
		if got := crc16(text); got != want {
			t.Errorf("crc16(%q) = %#x, want %#x", text, got, want)
		}
	}
}
