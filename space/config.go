package space

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Config is an immutable set of values of the parameters of one space. Inactive
// parameters have no value. The zero Config is empty.
type Config struct {
	space  *Space
	values []Value // by parameter index; never written after creation
}

// Space returns the configuration's space, nil for the zero Config.
func (c Config) Space() *Space { return c.space }

// IsZero reports whether c is the zero Config.
func (c Config) IsZero() bool { return c.space == nil }

// Get returns a parameter's value, zero if the parameter is inactive or unknown.
func (c Config) Get(id string) Value {
	if c.space != nil {
		if i, ok := c.space.index[id]; ok {
			return c.values[i]
		}
	}
	return Value{}
}

// Has reports whether a parameter has a value.
func (c Config) Has(id string) bool { return !c.Get(id).IsZero() }

// IDs returns the parameters that have a value, in the space's order.
func (c Config) IDs() []string {
	var ids []string
	for i, v := range c.values {
		if !v.IsZero() {
			ids = append(ids, c.space.params[i].ID)
		}
	}
	return ids
}

// Values returns the values of the parameters that apply, by id.
func (c Config) Values() Values {
	values := Values{}
	for _, id := range c.IDs() {
		values[id] = c.Get(id)
	}
	return values
}

// With returns a copy with one value replaced, or removed if v is zero. The result
// is neither projected nor checked. With panics if the space has no such parameter.
func (c Config) With(id string, v Value) Config {
	if c.space == nil {
		panic("space: With on a configuration without a space")
	}
	i, ok := c.space.index[id]
	if !ok {
		panic("space: no parameter " + id)
	}
	values := slices.Clone(c.values)
	values[i] = v
	return Config{space: c.space, values: values}
}

// Equal reports whether both have the same values under the same names; their spaces
// may differ.
func (c Config) Equal(o Config) bool {
	if c.space == o.space {
		return slices.EqualFunc(c.values, o.values, Value.Equal)
	}
	return c.Canonical() == o.Canonical()
}

// Canonical returns the canonical JSON object: keys in the space's order, and the
// shortest numbers that parse to the same values.
func (c Config) Canonical() string { return string(c.appendJSON(nil)) }

// Hash returns the SHA-256 of Canonical in hexadecimal.
func (c Config) Hash() string {
	sum := sha256.Sum256(c.appendJSON(make([]byte, 0, 256)))
	return hex.EncodeToString(sum[:])
}

// MarshalJSON returns Canonical. [Space.ParseJSON] parses it.
func (c Config) MarshalJSON() ([]byte, error) { return c.appendJSON(nil), nil }

func (c Config) appendJSON(b []byte) []byte {
	b = append(b, '{')
	first := true
	for i, v := range c.values {
		if v.IsZero() {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = strconv.AppendQuote(b, c.space.params[i].ID) // ids are plain ASCII
		b = append(b, ':')
		b = v.appendJSON(b)
	}
	return append(b, '}')
}

// String returns "k=v k=v", which [Space.Parse] parses.
func (c Config) String() string {
	var b strings.Builder
	for i, v := range c.values {
		if v.IsZero() {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		p := &c.space.params[i]
		b.WriteString(p.ID)
		b.WriteByte('=')
		b.WriteString(p.Format(v))
	}
	return b.String()
}
