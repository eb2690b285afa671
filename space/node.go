package space

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is a node of a YAML or JSON document.
type node struct {
	line  int
	kind  nodeKind
	value Value  // of a scalar: number, boolean or text
	text  string // of a scalar, as written
	keys  []string
	items []*node // items of a list, or values of a table's keys
}

type nodeKind uint8

const (
	nullNode nodeKind = iota
	scalarNode
	listNode
	mapNode
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a table of fields"}[k]
}

// maxDepth bounds the nesting of a document. A specification needs six levels.
const maxDepth = 32

// parseDocument parses YAML or JSON, distinguished by the first character. JSON has
// its own parser because it may contain tabs and escapes that YAML refuses.
func parseDocument(text []byte) (*node, error) {
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(text) {
		p := &jsonReader{text: text, dec: json.NewDecoder(bytes.NewReader(text)), line: 1}
		p.dec.UseNumber()
		return p.value(0)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var root yaml.Node
	switch err := dec.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the document is empty")
	case err != nil:
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one document, not several")
	}
	return yamlNode(&root, 0)
}

// yamlNode converts one node. Aliases are errors: a few lines of them can expand to
// billions of nodes.
func yamlNode(y *yaml.Node, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("line %d: nested more than %d levels deep", y.Line, maxDepth)
	}
	n := &node{line: y.Line}
	switch y.Kind {
	case yaml.DocumentNode:
		if len(y.Content) != 1 {
			return nil, errors.New("the document is empty")
		}
		return yamlNode(y.Content[0], depth)
	case yaml.ScalarNode:
		return n, n.scalar(y)
	case yaml.SequenceNode:
		n.kind = listNode
		for _, c := range y.Content {
			item, err := yamlNode(c, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	case yaml.MappingNode:
		n.kind = mapNode
		for i := 0; i+1 < len(y.Content); i += 2 {
			key := y.Content[i]
			if key.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: a field's name must be a single word", key.Line)
			}
			item, err := yamlNode(y.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			n.keys, n.items = append(n.keys, key.Value), append(n.items, item)
		}
	default:
		return nil, fmt.Errorf("line %d: anchors and aliases are not supported", y.Line)
	}
	return n, nil
}

// assigned returns the node as the value of an assignment.
func (n *node) assigned() string {
	if n.kind != listNode {
		return n.text
	}
	parts := make([]string, len(n.items))
	for i, item := range n.items {
		parts[i] = item.text
	}
	return strings.Join(parts, ",")
}

var yamlNumber = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// scalar reads a YAML scalar. Numbers are decimal only: YAML 1.1's octal and
// sexagesimal numbers are surprising.
func (n *node) scalar(y *yaml.Node) error {
	n.kind, n.text = scalarNode, y.Value
	quoted := y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	switch {
	case quoted:
		n.value = Text(y.Value)
	case y.Tag == "!!null":
		n.kind = nullNode
	case y.Tag == "!!bool":
		n.value = Bool(strings.EqualFold(y.Value, "true"))
	case yamlNumber.MatchString(y.Value):
		v, err := strconv.ParseFloat(y.Value, 64)
		if err != nil {
			return fmt.Errorf("line %d: %s is too large a number", y.Line, y.Value)
		}
		n.value = Num(v)
	default:
		n.value = Text(y.Value)
	}
	return nil
}

// jsonReader builds nodes from the tokens of a valid JSON document.
type jsonReader struct {
	text []byte
	dec  *json.Decoder
	at   int64 // lines are counted up to this offset
	line int
}

func (r *jsonReader) value(depth int) (*node, error) {
	t, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	end := r.dec.InputOffset()
	r.line += bytes.Count(r.text[r.at:end], []byte("\n"))
	r.at = end
	n := &node{line: r.line}
	if depth > maxDepth {
		return nil, fmt.Errorf("line %d: nested more than %d levels deep", r.line, maxDepth)
	}
	switch t := t.(type) {
	case nil:
	case bool:
		n.kind, n.value, n.text = scalarNode, Bool(t), strconv.FormatBool(t)
	case string:
		n.kind, n.value, n.text = scalarNode, Text(t), t
	case json.Number:
		v, err := t.Float64()
		if err != nil || math.IsInf(v, 0) {
			return nil, fmt.Errorf("line %d: %s is too large a number", r.line, t)
		}
		n.kind, n.value, n.text = scalarNode, Num(v), t.String()
	case json.Delim:
		n.kind = listNode
		if t == '{' {
			n.kind = mapNode
		}
		for r.dec.More() {
			if n.kind == mapNode {
				key, err := r.dec.Token()
				if err != nil {
					return nil, err
				}
				n.keys = append(n.keys, key.(string)) // the only possible token here
			}
			item, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		if _, err := r.dec.Token(); err != nil {
			return nil, err
		}
	}
	return n, nil
}
