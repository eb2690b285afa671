// Package kubejson reads objects of Kubernetes as kubectl get -o json prints them, with errors that name the file, the
// object and the field.
package kubejson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Object is an object. Errors are kept while fields are read; Err is the first one.
type Object struct {
	File  string // empty if it is not of a file
	value any
	err   error
}

// Of is the object of a map, as the dynamic client has it.
func Of(o map[string]any) *Object { return &Object{value: o} }

// Read reads the objects of a file: one, several or lists.
func Read(file string, text []byte) ([]*Object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out []*Object
	for {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: is not JSON: %w", file, err)
		}
		m, is := v.(map[string]any)
		if !is {
			return nil, fmt.Errorf("%s: is not an object of Kubernetes in JSON", file)
		}
		items, list := m["items"].([]any)
		if !list {
			items = []any{v}
		}
		for i, item := range items {
			o := &Object{File: file, value: item}
			if _, is := item.(map[string]any); !is || o.Kind() == "" {
				return nil, fmt.Errorf("%s: item %d is not an object of Kubernetes with a kind", file, i)
			}
			out = append(out, o)
		}
	}
}

// Kind is the object's kind.
func (o *Object) Kind() string { return o.text("kind") }

// Name is the object's name.
func (o *Object) Name() string { return o.text("metadata", "name") }

// Namespace is the object's namespace, empty if it has none.
func (o *Object) Namespace() string { return o.text("metadata", "namespace") }

// UID is unique among all objects.
func (o *Object) UID() string { return o.text("metadata", "uid") }

// text is that of a path, "" if it has none.
func (o *Object) text(path ...string) string {
	v := o.value
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	s, _ := v.(string)
	return s
}

// String names the object.
func (o *Object) String() string {
	name := o.Kind() + " " + o.Name()
	if ns := o.Namespace(); ns != "" {
		name = o.Kind() + " " + ns + "/" + o.Name()
	}
	if o.File != "" {
		return o.File + ": " + name
	}
	return name
}

// Err is the first field that was not as asked for.
func (o *Object) Err() error { return o.err }

// Get returns the field of a path.
func (o *Object) Get(path ...string) Value { return Value{of: o, v: o.value}.Get(path...) }

// Value is a field of an object; one that is not there has zero values.
type Value struct {
	of *Object
	at string
	v  any
}

// At is the path of the field.
func (v Value) At() string { return v.at }

// Has reports whether the field is there.
func (v Value) Has() bool { return v.v != nil }

// Fail keeps an error about the field.
func (v Value) Fail(format string, args ...any) {
	if v.of.err == nil {
		v.of.err = fmt.Errorf("%s: %s: %s", v.of, v.at, fmt.Sprintf(format, args...))
	}
}

// Get returns the field of a path below.
func (v Value) Get(path ...string) Value {
	for _, name := range path {
		m, is := v.v.(map[string]any)
		if !is && v.v != nil {
			v.Fail("is not an object")
		}
		at := name
		if v.at != "" {
			at = v.at + "." + name
		}
		v = Value{of: v.of, at: at, v: m[name]}
	}
	return v
}

// Items are the elements of a list.
func (v Value) Items() []Value {
	list, is := v.v.([]any)
	if !is && v.v != nil {
		v.Fail("is not a list")
	}
	out := make([]Value, len(list))
	for i := range list {
		out[i] = Value{of: v.of, at: fmt.Sprintf("%s[%d]", v.at, i), v: list[i]}
	}
	return out
}

// Keys are the names of the fields below, in order.
func (v Value) Keys() []string {
	m, is := v.v.(map[string]any)
	if !is && v.v != nil {
		v.Fail("is not an object")
	}
	return slices.Sorted(maps.Keys(m))
}

// Text is a text.
func (v Value) Text() string {
	s, is := v.v.(string)
	if !is && v.v != nil {
		v.Fail("is not a text")
	}
	return s
}

// Bool is true or false.
func (v Value) Bool() bool {
	b, is := v.v.(bool)
	if !is && v.v != nil {
		v.Fail("is neither true nor false")
	}
	return b
}

// number is the digits of a number or quantity.
func (v Value) number() (string, bool) {
	switch x := v.v.(type) {
	case nil:
		return "0", true
	case json.Number:
		return x.String(), true
	case string:
		return x, true
	case int64:
		return strconv.FormatInt(x, 10), true
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64), true
	}
	return "", false
}

// suffixes are the units of quantities.
var suffixes = map[string]*big.Rat{"m": big.NewRat(1, 1000), "k": exp(10, 3), "M": exp(10, 6), "G": exp(10, 9),
	"T": exp(10, 12), "P": exp(10, 15), "E": exp(10, 18), "Ki": exp(2, 10), "Mi": exp(2, 20), "Gi": exp(2, 30),
	"Ti": exp(2, 40), "Pi": exp(2, 50), "Ei": exp(2, 60)}

func exp(base, n int64) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(base), big.NewInt(n), nil))
}

// Quantity is a quantity such as 8, "500m" or "16Gi".
func (v Value) Quantity() *big.Rat {
	text, ok := v.number()
	digits := strings.TrimRight(text, "mkKMGTPEi")
	unit := big.NewRat(1, 1)
	if suffix := text[len(digits):]; ok && suffix != "" {
		unit, ok = suffixes[suffix]
	}
	q := new(big.Rat)
	if ok && len(digits) <= 40 && !strings.ContainsAny(digits, "/_xXpP") {
		if i := strings.IndexAny(digits, "eE"); i < 0 || len(digits)-i <= 4 {
			if _, ok = q.SetString(digits); ok {
				return q.Mul(q, unit)
			}
		}
	}
	v.Fail("%v is not a quantity", v.v)
	return new(big.Rat)
}

// Whole is a whole number of at most a billion, or of a quantity that is one.
func (v Value) Whole() int {
	q := v.Quantity()
	if !q.IsInt() || q.Num().CmpAbs(big.NewInt(1e9)) > 0 {
		v.Fail("%v is not a whole number up to a billion", v.v)
		return 0
	}
	return int(q.Num().Int64())
}

// Int is a whole number of 64 bits.
func (v Value) Int() int64 {
	q := v.Quantity()
	if !q.IsInt() || !q.Num().IsInt64() {
		v.Fail("%v is not a whole number", v.v)
		return 0
	}
	return q.Num().Int64()
}

// Float is a number.
func (v Value) Float() float64 {
	f, _ := v.Quantity().Float64()
	return f
}

// Time is an instant since 1970. ok is false if there is none.
func (v Value) Time() (at time.Duration, ok bool) {
	text := v.Text()
	if text == "" {
		return 0, false
	}
	t, err := time.Parse(time.RFC3339, text)
	if s := t.Unix(); err != nil || s < -math.MaxInt32 || s > math.MaxInt32*2 {
		v.Fail("%q is not a time of RFC 3339", text)
		return 0, false
	}
	return time.Duration(t.UnixNano()), true
}
