package native

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/space"
)

// Options is the Form of a program that is configured by options: a YAML file with an option a
// line.
type Options struct {
	// Comment is the head of the file: where the options come from.
	Comment string
	// List is the options in order. Without any, each parameter is an option of its name.
	List []Option
}

// Option is an option of the program.
type Option struct {
	Name string
	// Param is the parameter that the option has the value of. An option without one always
	// has the value Fixed.
	Param string
	Fixed space.Value
	// As converts between the parameter's value and the option's. Nil means that they are
	// the same.
	As *Codec
	// Comment stands above the option.
	Comment string
}

// Codec converts between the values of a parameter and those of an option.
type Codec struct {
	// To returns the option's value, zero if the option is left out.
	To func(space.Value) (space.Value, error)
	// From returns the parameter's value, zero if the option does not determine it.
	From func(space.Value) (space.Value, error)
}

// Words are the program's words for the categories of a parameter.
func Words(words map[string]string) *Codec {
	lookup := func(words map[string]string) func(space.Value) (space.Value, error) {
		return func(v space.Value) (space.Value, error) {
			word, ok := words[v.Text()]
			if !ok {
				return v, fmt.Errorf("%q is not one of %s", v, strings.Join(slices.Sorted(maps.Keys(words)), ", "))
			}
			return space.Text(word), nil
		}
	}
	back := map[string]string{}
	for category, word := range words {
		back[word] = category
	}
	return &Codec{To: lookup(words), From: lookup(back)}
}

// Complement is for an option that is 1 minus the parameter, up to nine decimals.
func Complement() *Codec {
	rest := func(v space.Value) (space.Value, error) {
		return space.Num(math.Round((1-v.Float())*1e9) / 1e9), nil
	}
	return &Codec{To: rest, From: rest}
}

// Switch is for an option that is 0 while the parameter has the value off, and otherwise 1.
func Switch(off float64) *Codec {
	return &Codec{
		To: func(v space.Value) (space.Value, error) {
			if v.Equal(space.Num(off)) {
				return space.Int(0), nil
			}
			return space.Int(1), nil
		},
		From: func(v space.Value) (space.Value, error) {
			switch {
			case v.Equal(space.Int(0)):
				return space.Num(off), nil
			case v.Equal(space.Int(1)):
				return space.Value{}, nil
			}
			return v, fmt.Errorf("%s is neither 0 nor 1", v)
		},
	}
}

// Unless is for an option that is left out while the parameter has the value off.
func Unless(off float64) *Codec {
	return &Codec{
		To: func(v space.Value) (space.Value, error) {
			if v.Equal(space.Num(off)) {
				return space.Value{}, nil
			}
			return v, nil
		},
		From: func(v space.Value) (space.Value, error) { return v, nil },
	}
}

// same is the codec of an option whose value is the parameter's.
var same = &Codec{
	To:   func(v space.Value) (space.Value, error) { return v, nil },
	From: func(v space.Value) (space.Value, error) { return v, nil },
}

func (o *Option) codec() *Codec {
	if o.As == nil {
		return same
	}
	return o.As
}

// list is the options of a file with these names.
func (o *Options) list(names []string) []Option {
	if len(o.List) > 0 {
		return o.List
	}
	list := make([]Option, len(names))
	for i, name := range names {
		list[i] = Option{Name: name, Param: name}
	}
	return list
}

// Render implements [Form].
func (o *Options) Render(values space.Values) ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	ids := slices.Sorted(maps.Keys(values))
	rendered := map[string]bool{}
	for _, one := range o.list(ids) {
		v := one.Fixed
		if one.Param != "" {
			var err error
			rendered[one.Param] = true
			if v = values[one.Param]; !v.IsZero() {
				if v, err = one.codec().To(v); err != nil {
					return nil, fmt.Errorf("%s: %w", one.Param, err)
				}
			}
		}
		if !v.IsZero() {
			root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: one.Name,
				HeadComment: one.Comment}, nodeOf(v))
		}
	}
	for _, id := range ids {
		if !rendered[id] {
			return nil, fmt.Errorf("%s: there is no option for it", id)
		}
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(&yaml.Node{Kind: yaml.DocumentNode, HeadComment: o.Comment, Content: []*yaml.Node{root}})
	return b.Bytes(), errors.Join(err, enc.Close())
}

// nodeOf writes a value. Numbers have no exponent, as programs that want whole numbers refuse one.
func nodeOf(v space.Value) *yaml.Node {
	number := func(x float64) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatFloat(x, 'f', -1, 64)}
	}
	switch {
	case v.Floats() != nil:
		list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, x := range v.Floats() {
			list.Content = append(list.Content, number(x))
		}
		return list
	case v.Text() != "":
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v.Text()}
	case v.Equal(space.Bool(v.Bool())):
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v.Bool())}
	}
	return number(v.Float())
}

// maxFile is the largest file that Parse accepts, in bytes.
const maxFile = 1 << 20

// Parse implements [Form].
func (o *Options) Parse(text []byte) (space.Values, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("is larger than %d KiB", maxFile>>10)
	}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); err != nil {
		if err == io.EOF {
			err = errors.New("is empty")
		}
		return nil, err
	}
	if err := dec.Decode(&yaml.Node{}); err != io.EOF {
		return nil, errors.New("has more than one YAML document")
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf(`line %d: want "option: value" lines`, root.Line)
	}
	given := map[string]space.Value{}
	var names []string
	for i := 0; i < len(root.Content); i += 2 {
		key, node := root.Content[i], root.Content[i+1]
		if _, twice := given[key.Value]; twice {
			return nil, fmt.Errorf("line %d: %s is set twice", key.Line, key.Value)
		}
		v, err := valueOf(node)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", key.Line, key.Value, err)
		}
		given[key.Value], names = v, append(names, key.Value)
	}
	return o.values(given, names)
}

// values converts the options of a file.
func (o *Options) values(given map[string]space.Value, names []string) (space.Values, error) {
	out := space.Values{}
	var known []string
	for _, one := range o.list(names) {
		known = append(known, one.Name)
		v, ok := given[one.Name]
		switch {
		case one.Param == "" && !v.Equal(one.Fixed):
			return nil, fmt.Errorf("%s: want %s", one.Name, one.Fixed)
		case one.Param == "" || !ok:
			continue
		}
		v, err := one.codec().From(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.Name, err)
		}
		if before := out[one.Param]; !before.IsZero() && !v.IsZero() {
			return nil, fmt.Errorf("%s contradicts another option: leave it out", one.Name)
		}
		if !v.IsZero() {
			out[one.Param] = v
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s: is not one of the options %s", name, strings.Join(known, ", "))
		}
	}
	return out, nil
}

// valueOf reads a value: a number, true or false, a text or a list of numbers.
func valueOf(n *yaml.Node) (space.Value, error) {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool":
		var b bool
		err := n.Decode(&b)
		return space.Bool(b), err
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value != "":
		return space.Text(n.Value), nil
	case n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!int" || n.ShortTag() == "!!float"):
		x, err := numberOf(n)
		return space.Num(x), err
	case n.Kind == yaml.SequenceNode:
		nums := make([]float64, len(n.Content))
		for i, e := range n.Content {
			var err error
			if nums[i], err = numberOf(e); err != nil {
				return space.Value{}, err
			}
		}
		return space.Nums(nums...), nil
	}
	return space.Value{}, errors.New("is neither a number, true or false, a text nor a list of numbers")
}

func numberOf(n *yaml.Node) (float64, error) {
	var x float64
	if err := n.Decode(&x); err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%q is not a finite number", n.Value)
	}
	return x, nil
}
