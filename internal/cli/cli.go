// Package cli is the command line of headgate: one file for each command.
//
// What a command says:
//
//   - What was asked for goes to standard output; everything else, logs among
//     it, to standard error.
//   - A message of an error begins with "headgate:", has no capital and no full
//     stop. What to do about it follows on lines of "headgate: hint:".
//   - Nobody sees a stack trace, a usage text that they did not ask for, or a
//     password.
//   - The exit code is 0 for yes, 1 for no (denied, refused, failed), and 2 when
//     the question could not be asked.
package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"

	// Calendar windows name time zones; the machine may have no database of
	// them (containers have none).
	_ "time/tzdata"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/envoyenv"
	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// Exit codes.
const (
	exitOK    = 0
	exitNo    = 1
	exitUsage = 2
	// exitUnmatched is for who asks for it: the request may pass, because no rule applied.
	exitUnmatched = 3
)

// root is the whole command line.
type root struct {
	Serve      serveCmd      `cmd:"" help:"Decide requests over gRPC and HTTP."`
	Proxy      proxyCmd      `cmd:"" help:"Limit requests in front of an HTTP backend."`
	Ratelimit  ratelimitCmd  `cmd:"" help:"Serve in the place of envoyproxy/ratelimit, by its environment."`
	Rules      rulesCmd      `cmd:"" help:"Check, test and explain rule files, and keep some in the database."`
	Check      checkCmd      `cmd:"" help:"Ask a running headgate whether a request may pass."`
	Store      storeCmd      `cmd:"" help:"Look into a store."`
	Quota      quotaCmd      `cmd:"" help:"Show and change what tenants may use."`
	Tier       tierCmd       `cmd:"" help:"Show and change the tiers that tenants may have."`
	Switch     switchCmd     `cmd:"" help:"Turn rules and tenants off, on or into shadow mode, and raise limits, while everything runs."`
	Drill      drillCmd      `cmd:"" help:"Have a running fleet rehearse a fault, and see what it does."`
	Load       loadCmd       `cmd:"" help:"Ask a server many times, and see how it answers and whether limits hold."`
	Simulate   simulateCmd   `cmd:"" help:"Show how exact each algorithm is, on made up traffic."`
	Replay     replayCmd     `cmd:"" help:"Ask rules about what was recorded: who would be denied that is not."`
	Recommend  recommendCmd  `cmd:"" help:"Say which limits rules might have, by what was recorded, and have them tried out."`
	Top        topCmd        `cmd:"" help:"Show how a node and its fleet are, in the terminal."`
	Regions    regionsCmd    `cmd:"" help:"Show how limits over several regions are doing."`
	Tail       tailCmd       `cmd:"" help:"Show decisions as they are made."`
	Admin      adminCmd      `cmd:"" help:"Prepare the API for operators."`
	Caller     callerCmd     `cmd:"" help:"Prepare who may ask for decisions."`
	Config     configCmd     `cmd:"" help:"Check and print settings."`
	Completion completionCmd `cmd:"" help:"Print the script by which a shell completes commands and flags."`
	Man        manCmd        `cmd:"" help:"Write pages for man, one for each command."`
	Version    versionCmd    `cmd:"" help:"Say which headgate this is, as --version does."`
}

const description = `A distributed rate limiter.

  headgate serve --rules rules/        decide requests, counting in memory
  headgate serve --rules rules/ --store redis://localhost:6379/0
  headgate rules validate rules/       see what rule files mean before they are in force
  headgate check --key user:42 --limit 3 --window 1m

Every flag of serve is also an environment variable (--http-addr is
HEADGATE_HTTP_ADDR) and a key of the file given with --config (http-addr).
'headgate help COMMAND' and 'headgate COMMAND --help' show what a command takes.`

// stdio is where a command reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// open opens a file to be read; "-" is standard input.
func (s *stdio) open(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(s.in), nil
	}
	return os.Open(path)
}

// codeError ends a command with a code. A nil err prints nothing: the command
// has said on standard output all there is to say.
type codeError struct {
	code int
	err  error
}

// Error implements error.
func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *codeError) Unwrap() error { return e.err }

// unprinted returns what is still to be printed of err: nothing, when the command
// has done that.
func unprinted(err error) error {
	if coded, ok := errors.AsType[*codeError](err); ok {
		return coded.err
	}
	return err
}

// exit is what the parser panics with where it would end the process: it has
// printed help and knows no other way to stop.
type exit int

// Run runs the command that args name and returns the exit code. It reads the
// environment for settings.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	stdout, stderr = printable{stdout}, printable{stderr}
	std := &stdio{in: stdin, out: stdout, err: stderr}
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case exit:
			code = int(cause)
		default:
			panic(cause)
		}
	}()
	if len(args) == 0 {
		args = []string{"--help"}
	}
	switch {
	case len(args) == 1 && args[0] == "--version":
		args = []string{"version"}
	case args[0] == "help": // of a command, as --help after it
		args = append(args[1:len(args):len(args)], "--help")
	}
	environment, err := environmentOf(args)
	if err != nil {
		printError(stderr, err)
		return exitUsage
	}
	parser, err := newParser(std, environment)
	if err != nil {
		printError(stderr, err)
		return exitUsage
	}
	for _, arg := range args {
		// The parser would replace other bytes, and so make two keys one.
		if !utf8.ValidString(arg) {
			printError(stderr, fmt.Errorf("argument %q is not UTF-8; hint: encode bytes that are not text, for instance as base64", arg))
			return exitUsage
		}
	}
	parsed, err := parse(parser, args)
	if err != nil {
		printError(stderr, environment.Explain(usageError(err)))
		return exitUsage
	}
	return codeOf(stderr, runCommand(std, parsed, environment))
}

// newParser makes the parser of the whole command line.
func newParser(std *stdio, environment envoyenv.Environment) (*kong.Kong, error) {
	parser, err := kong.New(&root{},
		kong.Name("headgate"),
		kong.Description(description),
		kong.Writers(std.out, std.err),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.DefaultEnvars(config.EnvPrefix),
		kong.Resolvers(config.Fallbacks(environment.Settings), &config.File{}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.ExplicitGroups(groups),
	)
	if err != nil {
		return nil, fmt.Errorf("command line: %w", err)
	}
	return parser, nil
}

// groups are the headings of flags in help texts.
var groups = []kong.Group{
	{Key: "backend", Title: "Backend:"},
	{Key: "rules", Title: "Rules:"},
	{Key: "store", Title: "Store:"},
	{Key: "listen", Title: "Addresses and shutdown:"},
	{Key: "gateways", Title: "Sub-requests of gateways:"},
	{Key: "identity", Title: "Who asks:"},
	{Key: "roles", Title: "Roles:"},
	{Key: "tenants", Title: "Tenants:"},
	{Key: "callers", Title: "Callers:"},
	{Key: "admin", Title: "Admin API and dashboard:"},
	{Key: "watch", Title: "Metrics, traces and top keys:"},
	{Key: "audit", Title: "Events of decisions:"},
	{Key: "shedding", Title: "Overload:"},
	{Key: "answers", Title: "Answers:"},
	{Key: "logs", Title: "Logs:"},
}

// parserWords are what the parser says of values in words of Go, each with the flag and the value in it,
// and what is said in their place of these two.
var parserWords = []struct {
	of  *regexp.Regexp
	say string
}{
	{regexp.MustCompile(`^(.+): expected duration but got (".*?"): time: `), "%s: %s is no length of time; hint: units are ms, s, m and h, such as 90s or 1h30m; a day is 24h"},
	{regexp.MustCompile(`^(.+): expected an? (?:valid \d+ bit )?u?int but got (".*?")`), "%s: %s is no whole number, or too large or too small; hint: digits, such as 10"},
	{regexp.MustCompile(`^(.+): expected a float but got (".*?")`), "%s: %s is no number; hint: digits, such as 10 or 0.5"},
	{regexp.MustCompile(`^(.+): parsing time (".*?")`), "%s: %s is no time; hint: date and time with their zone, such as 2026-11-22T12:00:00Z"},
	{regexp.MustCompile(`^(--.+?): expected \S+ value but got "(-.*?)" \(`), "%[1]s: what follows begins with a dash, as a flag does; hint: %[1]s=%[2]s"},
}

// usageError adds the way to the help text that fits.
func usageError(err error) error {
	if inFile, ok := errors.AsType[*yamlfile.Error](err); ok {
		return inFile
	}
	command := "headgate"
	if wrong, ok := errors.AsType[*misuse](err); ok && wrong.parsed != nil {
		if selected := wrong.parsed.Selected(); selected != nil {
			command = selected.FullPath()
		}
	}
	if strings.Contains(err.Error(), hintMark) {
		return err
	}
	err = onlyNear(err)
	for _, word := range parserWords {
		if found := word.of.FindStringSubmatch(err.Error()); found != nil {
			return fmt.Errorf(word.say, found[1], found[2])
		}
	}
	return fmt.Errorf("%w%s`%s --help` shows what there is", err, hintMark, command)
}

func codeOf(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	code := exitNo
	if coded, ok := errors.AsType[*codeError](err); ok {
		code = coded.code
		if coded.err == nil {
			return code
		}
	}
	printError(stderr, err)
	return code
}

// hintMark separates, in the text of an error, what is wrong from what to do.
const hintMark = "; hint: "

// nameAndPassword matches what may be a name and a password in a URL; a password
// may hold an "@" that should have been written as %40.
var nameAndPassword = regexp.MustCompile(`://\S*@`)

// example is what hints have in place of credentials.
const example = "://user:password@"

// hideCredentials hides credentials in the URLs of a text.
func hideCredentials(text string) string {
	return nameAndPassword.ReplaceAllStringFunc(text, func(found string) string {
		if found == example {
			return found
		}
		return "://xxxxx@"
	})
}

// coverCredentials is hideCredentials for a text in which all else is to stay at its place.
func coverCredentials(text string) string {
	return nameAndPassword.ReplaceAllStringFunc(text, func(found string) string {
		return "://" + strings.Repeat("x", utf8.RuneCountInString(found)-len("://@")) + "@"
	})
}

// printError prints each line of err and, below it, the line of the file that it is about, if
// that may be shown, and its hint. Credentials in URLs are hidden, wherever they come from: someone
// may have typed a store where a file was expected.
func printError(w io.Writer, err error) {
	err = withHint(err)
	excerpt := ""
	if at := (*yamlfile.Error)(nil); errors.As(err, &at) {
		excerpt = coverCredentials(at.Excerpt())
	}
	for line := range strings.Lines(hideCredentials(err.Error())) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), hintMark)
		fmt.Fprintf(w, "headgate: %s\n", parts[0])
		_, _ = io.WriteString(w, excerpt)
		excerpt = ""
		for _, hint := range parts[1:] {
			fmt.Fprintf(w, "headgate: hint: %s\n", hint)
		}
	}
}

// withHint adds what to do about a file that is not there, or not to be used, and about what a database refuses, where
// nobody has said it.
func withHint(err error) error {
	refused := sqltenant.Hint(err)
	switch {
	case strings.Contains(err.Error(), hintMark):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w%sis the path right? it is taken from the directory in which the command runs", err, hintMark)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w%sthe user who runs the command needs the right to it", err, hintMark)
	case refused != "":
		return fmt.Errorf("%w%s%s", err, hintMark, refused)
	}
	return err
}
