// Package schema writes JSON for programs: an object that begins with the name and the
// version of its schema, as in "schema": "autosched.evaluation/v1".
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Key is the member that holds a document's schema.
const Key = "schema"

// Name returns the full name of a schema: autosched.evaluation/v1 for evaluation/v1.
func Name(short string) string { return "autosched." + short }

// Write writes a value that marshals as an object, indented, with its schema.
func Write(w io.Writer, short string, v any) error {
	text, err := Marshal(short, v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = w.Write(out.Bytes())
	return err
}

// Marshal returns the object on one line. It panics if v marshals as something else.
func Marshal(short string, v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	members, ok := bytes.CutPrefix(bytes.TrimSpace(out.Bytes()), []byte("{"))
	if !ok {
		panic(fmt.Sprintf("schema: %s is not an object", short))
	}
	separator := ","
	if bytes.Equal(members, []byte("}")) {
		separator = ""
	}
	return fmt.Appendf(nil, "{%q:%q%s%s", Key, Name(short), separator, members), nil
}
