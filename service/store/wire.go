package store

import "google.golang.org/protobuf/encoding/protowire"

// wire writes or reads the nonzero fields of a protobuf message. A message must have its fields in the order of their
// numbers. Unknown fields are skipped.
type wire struct {
	b       []byte // written, or not read yet
	reading bool
	bad     bool
	next    protowire.Number // the field that b begins with after its tag; 0 at the end
	typ     protowire.Type   // of next
}

// advance reads the tag of the next field.
func (w *wire) advance() {
	if len(w.b) == 0 {
		w.next = 0
		return
	}
	number, typ, n := protowire.ConsumeTag(w.b)
	if n < 0 || number < w.next {
		w.fail()
		return
	}
	w.b, w.next, w.typ = w.b[n:], number, typ
}

func (w *wire) fail() { w.b, w.next, w.bad = nil, 0, true }

// has reports whether the next field has a number, and skips the fields before it.
func (w *wire) has(number protowire.Number, typ protowire.Type) bool {
	for w.next != 0 && w.next < number {
		w.skip()
	}
	if w.next == number && w.typ != typ {
		w.fail()
	}
	return w.next == number
}

func (w *wire) skip() {
	n := protowire.ConsumeFieldValue(w.next, w.typ, w.b)
	if n < 0 {
		w.fail()
		return
	}
	w.b = w.b[n:]
	w.advance()
}

// end skips the last fields and reports whether the message is complete.
func (w *wire) end() bool {
	for w.next != 0 {
		w.skip()
	}
	return !w.bad
}

// number is a field of type sint64.
func number[T ~int64 | ~int32 | ~int | ~uint8](w *wire, n protowire.Number, v *T) {
	if !w.reading {
		if *v != 0 {
			w.b = protowire.AppendTag(w.b, n, protowire.VarintType)
			w.b = protowire.AppendVarint(w.b, protowire.EncodeZigZag(int64(*v)))
		}
		return
	}
	if !w.has(n, protowire.VarintType) {
		return
	}
	u, size := protowire.ConsumeVarint(w.b)
	x := protowire.DecodeZigZag(u)
	*v = T(x)
	if size < 0 || int64(*v) != x {
		w.fail()
		return
	}
	w.b = w.b[size:]
	w.advance()
}

// flag is a field of type bool.
func (w *wire) flag(n protowire.Number, v *bool) {
	x := int64(0)
	if *v {
		x = -1 // 1 in zigzag
	}
	number(w, n, &x)
	*v = x != 0
}

// text is a field of type bytes.
func (w *wire) text(n protowire.Number, v *string) {
	if !w.reading {
		if *v != "" {
			w.b = protowire.AppendTag(w.b, n, protowire.BytesType)
			w.b = protowire.AppendString(w.b, *v)
		}
		return
	}
	if !w.has(n, protowire.BytesType) {
		return
	}
	b, size := protowire.ConsumeBytes(w.b)
	if size < 0 {
		w.fail()
		return
	}
	*v, w.b = string(b), w.b[size:]
	w.advance()
}

// parts allocates the messages of a repeated field that are read next.
func parts[T any](w *wire, n protowire.Number, v []T) []T {
	if !w.reading || !w.has(n, protowire.BytesType) {
		return v
	}
	count := 0
	for ahead := *w; ahead.next == n; count++ {
		ahead.skip()
	}
	return make([]T, count)
}

// enter begins a nested message in field n, and leave ends it. outer is the enclosing message.
func (w *wire) enter(n protowire.Number) (outer wire) {
	if !w.reading {
		w.b = protowire.AppendTag(w.b, n, protowire.BytesType)
		return *w
	}
	b, size := protowire.ConsumeBytes(w.b)
	if !w.has(n, protowire.BytesType) || size < 0 {
		w.fail()
		return *w
	}
	outer = *w
	outer.b = outer.b[size:]
	*w = wire{b: b, reading: true}
	w.advance()
	return outer
}

func (w *wire) leave(outer wire) {
	if !w.reading {
		start := len(outer.b)
		size := len(w.b) - start
		head := protowire.SizeVarint(uint64(size))
		w.b = append(w.b, make([]byte, head)...)
		copy(w.b[start+head:], w.b[start:start+size])
		protowire.AppendVarint(w.b[:start], uint64(size))
		return
	}
	whole := w.end()
	if *w = outer; !whole {
		w.fail()
		return
	}
	w.advance()
}
