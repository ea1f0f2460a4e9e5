package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/candidates"
	"github.com/headgate/headgate/rules/rulefile"
)

// rulesText is rules and the text that they come from.
type rulesText struct {
	set     *rules.Set
	files   []rulefile.File
	options rulefile.Options
	// tag is the version of a document, as the admin API names it.
	tag string
}

// text reads the rules of files, or those of a document.
func (c *recommendCmd) text(ctx context.Context, std *stdio) (t rulesText, err error) {
	if c.Document != "" {
		t.files, t.tag, err = c.document(ctx)
	} else {
		t.files, err = c.read(std, c.Rules)
	}
	if err != nil {
		return t, err
	}
	t.set, t.options, err = c.compile(std, t.files)
	return t, err
}

// put writes rules with candidates to where the flags say, and tells told. The answer is no when
// one of the candidates cannot be written; the others are.
func (c *recommendCmd) put(ctx context.Context, told io.Writer, t rulesText, list []candidates.Wanted) error {
	if c.Out == "" && !c.Write && !c.Open {
		return nil
	}
	if !c.JSON {
		if _, err := fmt.Fprintln(told); err != nil {
			return &codeError{exitUsage, err}
		}
	}
	written, refused := candidates.Write(t.files, t.options, t.set, list)
	var err error
	switch {
	case len(list) == len(refused):
		_, err = fmt.Fprint(told, "no candidate to write\n")
	case c.Open:
		err = c.open(ctx, told, t, written[0].Data)
	case c.Write:
		err = c.replace(told, t.files, written)
	default:
		err = c.writeOut(told, written)
	}
	if err != nil {
		return unanswered(err)
	}
	if n := len(list) - len(refused); n > 0 {
		if _, err := fmt.Fprintf(told, "candidates of %s\n", rules.CountText(n, "rule")); err != nil {
			return &codeError{exitUsage, err}
		}
	}
	var bad []error
	for _, r := range refused {
		bad = append(bad, errors.New(r.String()))
	}
	return noBecauseOf(bad)
}

// replace writes the files that have changed, each in one step.
func (c *recommendCmd) replace(told io.Writer, files, written []rulefile.File) error {
	for i := range files {
		if bytes.Equal(files[i].Data, written[i].Data) {
			continue
		}
		if err := replaceFile(files[i].Name, files[i].Data, written[i].Data); err != nil {
			return fmt.Errorf("--write: %w", err)
		}
		if _, err := fmt.Fprintf(told, "%s: changed\n", files[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a file in the place of one that is still what it was.
func replaceFile(path string, was, data []byte) error {
	if is, err := os.ReadFile(path); err != nil {
		return err
	} else if !bytes.Equal(is, was) {
		return fmt.Errorf("%s has changed meanwhile; hint: run it again", path)
	}
	return rulesource.Renew(path, func(file *os.File) error {
		_, err := file.Write(data)
		return err
	})
}

// writeOut writes all files to where nothing is yet: one as the file of --out, those of a directory
// below it.
func (c *recommendCmd) writeOut(told io.Writer, written []rulefile.File) error {
	info, err := os.Stat(c.Rules)
	if err != nil || !info.IsDir() {
		if err := writeNew(c.Out, written[0].Data); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		_, err = fmt.Fprintf(told, "%s: written\n", c.Out)
		return err
	}
	for _, f := range written {
		below, err := filepath.Rel(c.Rules, f.Name)
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		path := filepath.Join(c.Out, below)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		if err := writeNew(path, f.Data); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	_, err = fmt.Fprintf(told, "%s: %s written\n", c.Out, rules.CountText(len(written), "file"))
	return err
}

// documents is where the admin API has documents of rules.
const documents = "rules/documents/"

// document asks the admin API for the document of --document.
func (c *recommendCmd) document(ctx context.Context) ([]rulefile.File, string, error) {
	if err := checkStoredName(c.Document); err != nil {
		return nil, "", err
	}
	data, header, err := c.askDocument(ctx, http.MethodGet, http.Header{}, nil)
	if err != nil {
		return nil, "", fmt.Errorf("--document %s: %w", c.Document, err)
	}
	return []rulefile.File{{Name: c.Document, Data: data}}, header.Get("ETag"), nil
}

// open puts the document back, unless somebody has changed it meanwhile.
func (c *recommendCmd) open(ctx context.Context, told io.Writer, t rulesText, data []byte) error {
	header := http.Header{"Content-Type": {"application/yaml"}, "If-Match": {t.tag}}
	if _, _, err := c.askDocument(ctx, http.MethodPut, header, bytes.NewReader(data)); err != nil {
		if coded, ok := errors.AsType[*codeError](err); ok {
			return &codeError{coded.code, fmt.Errorf("--open: %w", coded.err)}
		}
		return fmt.Errorf("--open: %w", err)
	}
	_, err := fmt.Fprintf(told, "%s: changed in the database\n", c.Document)
	return err
}

// askDocument asks the admin API about the document.
func (c *recommendCmd) askDocument(ctx context.Context, method string, header http.Header, body io.Reader) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	raw, answered, err := c.askText(ctx, method, documents+c.Document, header, body)
	return raw, answered, unanswered(err)
}
