package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/registration"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

// MaxSpecBytes bounds a specification file.
const MaxSpecBytes = 4 << 20

// ReadScheduler reads a YAML or JSON file; JSON is YAML.
func ReadScheduler(stdin io.Reader, path string) (*pb.Scheduler, error) {
	text, err := ReadText(stdin, path)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxSpecBytes {
		return nil, fmt.Errorf("%s: is larger than %d MiB", path, MaxSpecBytes>>20)
	}
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tree, ok := document.(map[string]any)
	switch {
	case document == nil:
		return nil, fmt.Errorf("%s: is empty: it needs the fields of a Scheduler, such as name and spec", path)
	case !ok:
		return nil, fmt.Errorf("%s: is not a document with fields, such as name and spec", path)
	}
	delete(tree, schema.Key) // of scheduler get --json
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &pb.Scheduler{}
	if err := protojson.Unmarshal(asJSON, s); err != nil {
		return nil, fmt.Errorf("%s: %s", path, fieldError(asJSON, err))
	}
	return s, nil
}

// jsonPosition is how protojson begins an error about a document of one line.
var jsonPosition = regexp.MustCompile(`^(?:syntax error )?\(line 1:(\d+)\): `)

// fieldError is an error of protojson about a document of one line, with the path of
// the field instead of its column.
func fieldError(document []byte, err error) string {
	// protojson varies a space in its texts on purpose.
	text := strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
	at := jsonPosition.FindStringSubmatch(text)
	if at == nil {
		return text
	}
	column, err := strconv.Atoi(at[1])
	if err != nil {
		return text
	}
	text = text[len(at[0]):]
	if path, found := pathAt(json.NewDecoder(bytes.NewReader(document)), document, column, "scheduler"); found {
		return path + ": " + text
	}
	return text
}

// pathAt is the path of the field whose name or value has the column, which counts
// characters from 1. The next value of the decoder is at the path given.
func pathAt(d *json.Decoder, document []byte, column int, path string) (string, bool) {
	token, err := d.Token()
	if err != nil {
		return "", false
	}
	reached := func() bool { return utf8.RuneCount(document[:d.InputOffset()]) >= column }
	if reached() {
		return path, true
	}
	if token != json.Delim('{') && token != json.Delim('[') {
		return "", false
	}
	for i := 0; d.More(); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		if token == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return "", false
			}
			if at = fmt.Sprintf("%s.%s", path, name); reached() {
				return at, true
			}
		}
		if found, ok := pathAt(d, document, column, at); ok {
			return found, true
		}
	}
	_, err = d.Token() // the closing bracket
	return path, err == nil && reached()
}

// ParseMode reads --mode; nothing is no mode.
func ParseMode(text string) (pb.SchedulerSpec_Mode, error) {
	switch text {
	case "":
		return pb.SchedulerSpec_MODE_UNSPECIFIED, nil
	case "recommend", "auto":
		return pb.SchedulerSpec_Mode(pb.SchedulerSpec_Mode_value[strings.ToUpper(text)]), nil
	}
	return 0, UsageError{fmt.Errorf("--mode: %q is not recommend or auto", text)}
}

// ReadText reads a small file, or standard input for "-": at most a byte more than MaxSpecBytes.
func ReadText(stdin io.Reader, path string) ([]byte, error) {
	return readUpTo(stdin, path, MaxSpecBytes)
}

// readUpTo reads a file, or standard input for "-": at most a byte more than most.
func readUpTo(stdin io.Reader, path string, most int64) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(filepath.Clean(path))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

// LoadSpace reads a space, or that of a registration.
func LoadSpace(text []byte, path string) (*space.Space, error) {
	var top map[string]any
	if len(text) > MaxSpecBytes || yaml.Unmarshal(text, &top) != nil || top["spec"] == nil {
		return space.Load(text)
	}
	s, err := ReadScheduler(bytes.NewReader(text), "-")
	if err != nil {
		return nil, errors.New(path + strings.TrimPrefix(err.Error(), "-"))
	}
	id := ShortName(s.GetName())
	if id == "" {
		id = s.GetSpec().GetSchedulerType()
	}
	return registration.Check(Builtins(), &pb.CreateSchedulerRequest{Scheduler: s, SchedulerId: id})
}

// ListViolations is an error with a line for each violation.
func ListViolations(path string, err error) error {
	var v space.Violations
	if !errors.As(err, &v) {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is not valid:", path)
	for _, one := range v {
		b.WriteString("\n  ")
		b.WriteString(one.String())
	}
	return errors.New(b.String())
}

// Builtins are the schedulers that can be registered: schedulers with something to
// tune that do not need to know the future.
func Builtins() []controller.Builtin {
	var out []controller.Builtin
	for _, s := range schedulers.All {
		if params := s.Space.Params(); len(params) > 0 && !s.Clairvoyant {
			out = append(out, controller.Builtin{Name: s.Name, Params: params, Rules: s.Space.Rules(),
				Site: s.SiteParam})
		}
	}
	return out
}
