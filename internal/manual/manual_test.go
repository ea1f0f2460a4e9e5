package manual

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// grammar has one of each thing that a command line may have.
type grammar struct {
	Serve struct {
		Level string `enum:"debug,info" default:"info" group:"logs" help:"Least level. Default ${default}."`
		Addr  string `short:"a" placeholder:"ADDR" help:".5 begins with a dot, and a back\\slash follows."`
		Quiet bool   `negatable:"" help:"Say it's nothing: not a word."`
	} `cmd:"" help:"Serve. It goes on."`
	Rules struct {
		Check struct {
			File string `arg:"" help:"Which file."`
		} `cmd:"" help:"Check rules."`
		Secret struct{} `cmd:"" hidden:"" help:"Not for all."`
	} `cmd:"" help:"See to rules."`
}

func app(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&grammar{}, kong.Name("prog"), kong.DefaultEnvars("PROG"),
		kong.ExplicitGroups([]kong.Group{{Key: "logs", Title: "Logs:"}}))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

func TestPages(t *testing.T) {
	pages := map[string]string{}
	for _, page := range Pages(app(t), "v1.2.3") {
		pages[page.Name] = page.Text
	}
	for name, lines := range map[string][]string{
		"prog.1":             {`.TH "PROG" 1 "" "headgate v1.2.3" "User Commands"`, ".B serve", ".BR prog\\-rules (1)"},
		"prog-serve.1":       {"prog\\-serve \\- Serve", ".B \\-\\-level=\"info\"", `.SS "Logs"`, "One of: debug, info.", "Environment: PROG_LEVEL", `\&.5 begins with a dot, and a back\eslash follows.`},
		"prog-rules.1":       {".B check"},
		"prog-rules-check.1": {"[FLAGS] <file>", ".BR prog\\-rules (1)"},
	} {
		for _, line := range lines {
			if !slices.Contains(strings.Split(pages[name], "\n"), line) {
				t.Errorf("%s has no line %q:\n%s", name, line, pages[name])
			}
		}
		delete(pages, name)
	}
	if len(pages) > 0 {
		t.Errorf("pages of commands that help does not show: %v", pages)
	}
}

// TestBashCompletes asks a real bash what it would offer.
func TestBashCompletes(t *testing.T) {
	script, err := Completion(app(t), "bash")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "completion")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words string // as bash cuts them; the last one is being typed
		want  string
	}{
		{`prog ''`, "serve rules --help -h"},
		{`prog se`, "serve"},
		{`prog rules ''`, "check --help -h"},
		{`prog rules check --`, "--help"},
		{`prog serve --l`, "--level"},
		{`prog serve --no`, "--no-quiet"},
		{`prog serve --level ''`, "debug info"},
		{`prog serve --level = de`, "debug"},
		{`prog serve --level =`, "debug info"},
		{`prog serve --addr fi`, ""},
		{`prog serve rules ''`, "--help -h --level --addr -a --quiet --no-quiet"},
	} {
		ask := `source "$1"; COMP_WORDS=(` + c.words + `); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _prog; echo "${COMPREPLY[*]}"`
		out, err := exec.Command("bash", "--norc", "-c", ask, "bash", file).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := strings.TrimSpace(string(out)); got != c.want {
			t.Errorf("after %q bash offers %q, want %q", c.words, got, c.want)
		}
	}
}

// TestShellsGetEveryCommand holds that the scripts of shells that need not be here offer the
// same words, and that no apostrophe ends a word of them.
func TestShellsGetEveryCommand(t *testing.T) {
	for shell, want := range map[string][]string{
		"zsh":  {"#compdef prog", "('prog rules check')", "'serve:Serve'", `'--quiet:Say it'\''s nothing\: not a word'`, "(--level) compadd -- debug info; return ;;"},
		"fish": {"case 'prog serve' 'prog rules' 'prog rules check'", "-f -a serve -d 'Serve'", `-l quiet -d 'Say it\'s nothing: not a word'`, "-l level -x -a 'debug info'", "-l addr -s a -r"},
	} {
		script, err := Completion(app(t), shell)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(script, text) {
				t.Errorf("%s: no %q in\n%s", shell, text, script)
			}
		}
		if strings.Contains(script, "secret") {
			t.Errorf("%s offers a command that help does not show", shell)
		}
	}
	if _, err := Completion(app(t), "tcsh"); err == nil || !strings.Contains(err.Error(), "hint: one of bash, zsh, fish") {
		t.Errorf("an unknown shell: %v", err)
	}
}
