package resp

import "testing"

func TestCommandBytes(t *testing.T) {
	for _, test := range []struct {
		name    string
		command Command
		want    string
	}{
		{"one word", Words("PING"), "*1\r\n$4\r\nPING\r\n"},
		{"several words", Words("SET", "k", "v1"), "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nv1\r\n"},
		{"empty words", Words("ECHO", "", ""), "*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$0\r\n\r\n"},
		{
			"bytes that are no text", Words("ECHO", "\x00\r\n$1\r\n\xff\xc3"),
			"*2\r\n$4\r\nECHO\r\n$9\r\n\x00\r\n$1\r\n\xff\xc3\r\n",
		},
		{"letters of several bytes", Words("é"), "*1\r\n$2\r\n\xc3\xa9\r\n"},
		{
			"a script with keys and args", Script("EVALSHA", "abc", []string{"k1", "k2"}, []string{"", "\r\n", "7"}),
			"*8\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n$0\r\n\r\n$2\r\n\r\n\r\n$1\r\n7\r\n",
		},
		{"a script with nothing", Script("EVAL", "", nil, nil), "*3\r\n$4\r\nEVAL\r\n$0\r\n\r\n$1\r\n0\r\n"},
		{
			"a script with args alone", Script("EVAL", "x", nil, []string{"a"}),
			"*4\r\n$4\r\nEVAL\r\n$1\r\nx\r\n$1\r\n0\r\n$1\r\na\r\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(test.command.appendTo([]byte("before"))); got != "before"+test.want {
				t.Errorf("appended to before is %q, want %q", got, "before"+test.want)
			}
		})
	}
}
