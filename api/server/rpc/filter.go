package rpc

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/convert"
)

// place is a field of the elements of a list: fields from message to message, then the key of a map if the
// last of them is one.
type place struct {
	path []protoreflect.FieldDescriptor
	key  string
}

// term is a part of a filter: a place compared with a value, or field:* for one that is set.
type term struct {
	place
	op    string
	value any
}

// sortKey is a part of an order.
type sortKey struct {
	place
	descending bool
}

var (
	termText  = regexp.MustCompile(`^([a-z_]+(?:\.[A-Za-z0-9_./-]+)?)\s*(<=|>=|!=|=|<|>|:)\s*(?:"([^"]*)"|([^\s"]+))`)
	conjoined = regexp.MustCompile(`^\s+AND\s+`)
	orderText = regexp.MustCompile(`^([a-z_]+(?:\.[A-Za-z0-9_./-]+)?)(?:\s+(asc|desc))?$`)
)

// longestFilter bounds a filter, and an order, in bytes.
const longestFilter = 1000

// parseFilter reads terms with AND between them, which all must hold: a subset of AIP-160. Elements are
// of a message, whose fields in lacks a list leaves out.
func parseFilter(text string, of protoreflect.MessageDescriptor, lacks []string) (terms []term, err error) {
	if len(text) > longestFilter {
		return nil, convert.Invalid("filter", "is longer than %d bytes", longestFilter)
	}
	for rest := strings.TrimSpace(text); rest != ""; {
		m := termText.FindStringSubmatch(rest)
		if m == nil {
			return nil, convert.Invalid("filter", "%.80q is not a comparison such as state = ACTIVE, "+
				"create_time > \"2026-01-31T00:00:00Z\" or labels.team:*; several have AND between them", rest)
		}
		after := rest[len(m[0]):]
		if and := conjoined.FindString(after); after != "" && (and == "" || and == after) {
			return nil, convert.Invalid("filter", "%.80q: want AND and a comparison after %.80q", after, m[0])
		} else {
			rest = after[len(and):]
		}
		t := term{op: m[2]}
		if t.place, err = findPlace("filter", m[1], of, lacks); err != nil {
			return nil, err
		}
		switch literal := m[3] + m[4]; {
		case t.op == ":" && literal != "*":
			return nil, convert.Invalid("filter", "%.80q: after ':' only * is known", m[0])
		case t.op != ":":
			var want string
			if t.value, want = t.parse(literal); want != "" {
				return nil, convert.Invalid("filter", "%s: %.80q is not %s", m[1], literal, want)
			}
		}
		terms = append(terms, t)
	}
	return terms, nil
}

// parseOrder reads fields with commas between them, each with desc after it or not, as AIP-132 has it.
func parseOrder(text string, of protoreflect.MessageDescriptor, lacks []string) (keys []sortKey, err error) {
	if len(text) > longestFilter {
		return nil, convert.Invalid("order_by", "is longer than %d bytes", longestFilter)
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		m := orderText.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return nil, convert.Invalid("order_by",
				"%.80q is not a field, such as create_time, or one with desc after it",
				part)
		}
		k := sortKey{descending: m[2] == "desc"}
		if k.place, err = findPlace("order_by", m[1], of, lacks); err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// findPlace finds the field that a filter or an order names.
func findPlace(field, name string, of protoreflect.MessageDescriptor, lacks []string) (p place, err error) {
	rest := name
	for {
		part, more, nested := strings.Cut(rest, ".")
		f := of.Fields().ByName(protoreflect.Name(part))
		if f == nil || f.IsList() || slices.Contains(lacks, part) && len(p.path) == 0 {
			return p, convert.Invalid(field, "%.80q: %s has no field %.40q that is compared: want one of %s", name,
				of.Name(), part, strings.Join(comparable(of, lacks), ", "))
		}
		p.path = append(p.path, f)
		leaf := f.Message() == nil || isLeaf(f.Message())
		switch {
		case f.IsMap() && more != "":
			p.key = more
			return p, nil
		case f.IsMap():
			return p, convert.Invalid(field, "%.80q: want a key after it, as in %s.KEY", name, name)
		case leaf && !nested:
			return p, nil
		case leaf:
			return p, convert.Invalid(field, "%.80q: %.40q has no fields", name, part)
		case more == "":
			return p, convert.Invalid(field, "%.80q: want a field of it, one of %s", name,
				strings.Join(comparable(f.Message(), nil), ", "))
		}
		of, lacks, rest = f.Message(), nil, more
	}
}

// comparable are the fields of a message that filters and orders know.
func comparable(of protoreflect.MessageDescriptor, lacks []string) (names []string) {
	for i := range of.Fields().Len() {
		if f := of.Fields().Get(i); !f.IsList() && !slices.Contains(lacks, string(f.Name())) {
			names = append(names, string(f.Name()))
		}
	}
	return names
}

// isLeaf reports whether a message is a value itself.
func isLeaf(m protoreflect.MessageDescriptor) bool {
	switch m.FullName() {
	case "google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.Value":
		return true
	}
	return false
}

// leaf is the field with the value: of a map that of its values.
func (p place) leaf() protoreflect.FieldDescriptor {
	last := p.path[len(p.path)-1]
	if last.IsMap() {
		return last.MapValue()
	}
	return last
}

// parse reads a value as the field has it; want describes a valid value if it is not.
func (p place) parse(text string) (v any, want string) {
	var err error
	switch f := p.leaf(); f.Kind() {
	case protoreflect.EnumKind:
		if f.Enum().Values().ByName(protoreflect.Name(text)) == nil {
			var names []string
			for i := range f.Enum().Values().Len() {
				names = append(names, string(f.Enum().Values().Get(i).Name()))
			}
			return nil, "one of " + strings.Join(names, ", ")
		}
		return text, ""
	case protoreflect.BoolKind:
		if text != "true" && text != "false" {
			return nil, "true or false"
		}
		return text, ""
	case protoreflect.StringKind:
		return text, ""
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		v, err = strconv.ParseInt(text, 10, 64)
		want = "a whole number"
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		v, err = strconv.ParseUint(text, 10, 64)
		want = "a whole number from 0"
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		v, err = strconv.ParseFloat(text, 64)
		want = "a number"
	case protoreflect.MessageKind:
		switch f.Message().FullName() {
		case "google.protobuf.Timestamp":
			v, err = time.Parse(time.RFC3339, text)
			want = "an instant such as 2026-01-31T09:30:00Z, in quotes"
		case "google.protobuf.Duration":
			v, err = time.ParseDuration(text)
			want = "a time such as 90s or 1h30m"
		case "google.protobuf.Value":
			if x, bad := strconv.ParseFloat(text, 64); bad == nil {
				return x, ""
			}
			return text, "" // true and false, too: a text is never compared with a number
		default:
			return nil, "a value: the field is compared with :* only"
		}
	default:
		return nil, "a value: the field is compared with :* only"
	}
	if err != nil {
		return nil, want
	}
	return v, ""
}

// value returns the value of an element at a place, nil if it is not set. Of a field without presence the zero
// value is not set; see term.holds.
func (p place) value(m proto.Message) any {
	at := m.ProtoReflect()
	for _, f := range p.path[:len(p.path)-1] {
		if !at.Has(f) {
			return nil
		}
		at = at.Get(f).Message()
	}
	last := p.path[len(p.path)-1]
	if !at.Has(last) && (last.HasPresence() || last.IsMap()) {
		return nil
	}
	v := at.Get(last)
	if last.IsMap() {
		if v = v.Map().Get(protoreflect.ValueOfString(p.key).MapKey()); !v.IsValid() {
			return nil
		}
	}
	switch f := p.leaf(); f.Kind() {
	case protoreflect.EnumKind:
		if d := f.Enum().Values().ByNumber(v.Enum()); d != nil {
			return string(d.Name())
		}
		return strconv.Itoa(int(v.Enum()))
	case protoreflect.BoolKind:
		return strconv.FormatBool(v.Bool())
	case protoreflect.MessageKind:
		switch x := v.Message().Interface().(type) {
		case *timestamppb.Timestamp:
			return x.AsTime()
		case *durationpb.Duration:
			return x.AsDuration()
		case *structpb.Value:
			if b, ok := x.GetKind().(*structpb.Value_BoolValue); ok {
				return strconv.FormatBool(b.BoolValue)
			}
			return x.AsInterface()
		}
		return v.Message()
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return v.Int()
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return v.Uint()
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return v.Float()
	}
	return v.Interface()
}

// compare orders two values of one type; ok is false for two types.
func compare(a, b any) (order int, ok bool) {
	switch x := a.(type) {
	case string:
		return compareAs(x, b)
	case int64:
		return compareAs(x, b)
	case uint64:
		return compareAs(x, b)
	case float64:
		return compareAs(x, b)
	case time.Duration:
		return compareAs(x, b)
	case time.Time:
		if y, same := b.(time.Time); same {
			return x.Compare(y), true
		}
	}
	return 0, false
}

func compareAs[T cmp.Ordered](x T, b any) (order int, ok bool) {
	if y, same := b.(T); same {
		return cmp.Compare(x, y), true
	}
	return 0, false
}

// isZero reports whether a value is the default of a field without presence.
func isZero(v any) bool {
	return v == nil || v == "" || v == "false" || v == int64(0) || v == uint64(0) || v == float64(0)
}

// holds reports whether an element meets the term. What is not set differs from every value, and is
// neither above nor below one.
func (t term) holds(m proto.Message) bool {
	v := t.place.value(m)
	if t.op == ":" {
		f := t.path[len(t.path)-1]
		return v != nil && (f.IsMap() || f.HasPresence() || !isZero(v))
	}
	order, ok := compare(v, t.value)
	switch t.op {
	case "=":
		return ok && order == 0
	case "!=":
		return !ok || order != 0
	case "<":
		return ok && order < 0
	case "<=":
		return ok && order <= 0
	case ">":
		return ok && order > 0
	}
	return ok && order >= 0
}

// byKeys orders two elements; fields that are not set come first.
func byKeys(keys []sortKey, a, b proto.Message) int {
	for _, k := range keys {
		x, y := k.value(a), k.value(b)
		order, ok := compare(x, y)
		if !ok {
			order = cmp.Compare(rank(x), rank(y))
		}
		if k.descending {
			order = -order
		}
		if order != 0 {
			return order
		}
	}
	return 0
}

// rank orders values of two types: nothing, numbers, the rest.
func rank(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case float64:
		return 1
	}
	return 2
}
