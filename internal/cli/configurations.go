package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/autosched/autosched/internal/schema"
)

// maxReport bounds the report of an evaluation, which is larger than a configuration.
const maxReport = 256 << 20

// ReadConfigText reads the configuration that FILE has, or that FILE:NAME names of a document
// with several.
func ReadConfigText(stdin io.Reader, arg string) (text []byte, scheduler string, err error) {
	path, name := splitConfigName(arg)
	text, err = readUpTo(stdin, path, maxReport)
	switch {
	case err != nil:
		return nil, "", err
	case len(text) > maxReport:
		return nil, "", fmt.Errorf("%s: is larger than %d MiB", path, maxReport>>20)
	}
	if text, scheduler, err = chooseConfig(text, name); err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return text, scheduler, nil
}

// splitConfigName splits FILE:NAME after the first prefix that is a file, or standard input.
func splitConfigName(arg string) (path, name string) {
	if _, err := os.Stat(arg); err == nil {
		return arg, ""
	}
	for i := range len(arg) {
		if arg[i] != ':' {
			continue
		}
		if info, err := os.Stat(arg[:i]); arg[:i] == "-" || err == nil && !info.IsDir() {
			return arg[:i], arg[i+1:]
		}
	}
	return arg, ""
}

// chooseConfig finds the configuration of a name: a method of an evaluation, a row of a
// comparison. A text of another kind is one configuration without a name. scheduler is
// whose configuration it is, if the text is a result that names it.
func chooseConfig(text []byte, name string) (config []byte, scheduler string, err error) {
	var doc struct {
		Schema    string `json:"schema"`
		Scheduler string `json:"scheduler"`
		Methods   []struct {
			Method        string          `json:"method"`
			Configuration json.RawMessage `json:"configuration"`
		} `json:"methods"`
		Rows []struct {
			Name          string          `json:"name"`
			Scheduler     string          `json:"scheduler"`
			Configuration json.RawMessage `json:"configuration"`
		} `json:"rows"`
	}
	several := json.Unmarshal(text, &doc) == nil && len(doc.Methods)+len(doc.Rows) > 0
	switch {
	case doc.Schema != "" && !(strings.HasPrefix(doc.Schema, schema.Name("")) && strings.HasSuffix(doc.Schema, "/v1")):
		return nil, "", fmt.Errorf("has the schema %q: this program reads version 1 of what autosched prints, such as %s; "+
			"use the program that wrote it, or give the values by parameter", doc.Schema, schema.Name("tuning/v1"))
	case !several && name == "":
		// The scheduler of other documents is one of the service, by a name of its own.
		if doc.Schema != schema.Name("tuning/v1") && doc.Schema != schema.Name("simulation/v1") {
			doc.Scheduler = ""
		}
		return text, doc.Scheduler, nil
	case !several:
		return nil, "", fmt.Errorf("has no configuration %q: it is no result of evaluate or compare", name)
	}
	var names []string
	for _, r := range doc.Rows {
		if r.Name == name {
			return r.Configuration, r.Scheduler, nil
		}
		names = append(names, r.Name)
	}
	for _, m := range doc.Methods {
		if m.Method == name {
			return m.Configuration, doc.Scheduler, nil
		}
		names = append(names, m.Method)
	}
	if name == "" {
		return nil, "", fmt.Errorf("has several configurations: choose one as FILE:NAME, of %s", strings.Join(names, ", "))
	}
	return nil, "", fmt.Errorf("has no configuration %q; there are %s", name, strings.Join(names, ", "))
}
