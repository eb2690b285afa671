// Package convert converts between messages of autosched.v1 and the types of the product, in both
// directions. Reading names every field that is wrong.
package convert

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Package has the messages whose fields have behaviours.
const Package = "autosched.v1"

// Behaviors are the google.api.field_behavior of a field.
func Behaviors(f protoreflect.FieldDescriptor) []annotations.FieldBehavior {
	return proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
}

// behaved are the fields of a message that a request has to have, that it cannot set, and that have such fields inside.
type behaved struct {
	required, output, inner []protoreflect.FieldDescriptor
}

var fieldsOf sync.Map // of *behaved, by name of the message

func behaviorOf(m protoreflect.MessageDescriptor) *behaved {
	if known, ok := fieldsOf.Load(m.FullName()); ok {
		return known.(*behaved)
	}
	var f behaved
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		of := Behaviors(field)
		if slices.Contains(of, annotations.FieldBehavior_OUTPUT_ONLY) {
			f.output = append(f.output, field)
			continue
		}
		if slices.Contains(of, annotations.FieldBehavior_REQUIRED) {
			f.required = append(f.required, field)
		}
		if inside := field.Message(); inside != nil && !field.IsMap() && inside.ParentFile().Package() == Package {
			if in := behaviorOf(inside); len(in.required)+len(in.output)+len(in.inner) > 0 {
				f.inner = append(f.inner, field)
			}
		}
	}
	fieldsOf.Store(m.FullName(), &f)
	return &f
}

// within calls f for the messages in the fields of a message that have fields of a behaviour.
func (of *behaved) within(m protoreflect.Message, at string, f func(protoreflect.Message, string)) {
	for _, field := range of.inner {
		if !m.Has(field) {
			continue
		}
		if !field.IsList() {
			f(m.Get(field).Message(), at+string(field.Name()))
			continue
		}
		for list, i := m.Get(field).List(), 0; i < list.Len(); i++ {
			f(list.Get(i).Message(), fmt.Sprintf("%s%s[%d]", at, field.Name(), i))
		}
	}
}

// IgnoreOutput clears the fields of answers, as AIP-203 asks for.
func IgnoreOutput(m protoreflect.Message) {
	of := behaviorOf(m.Descriptor())
	for _, field := range of.output {
		m.Clear(field)
	}
	of.within(m, "", func(in protoreflect.Message, _ string) { IgnoreOutput(in) })
}

// AddMissing adds a violation for each required field that a message lacks.
func AddMissing(v *Violations, m protoreflect.Message, at string) {
	of := behaviorOf(m.Descriptor())
	for _, field := range of.required {
		if !m.Has(field) {
			v.Add(at+string(field.Name()), "is required%s", choices(field.Enum()))
		}
	}
	of.within(m, at, func(in protoreflect.Message, at string) { AddMissing(v, in, at+".") })
}

// choices are the values of an enum as the end of a sentence.
func choices(of protoreflect.EnumDescriptor) (text string) {
	if of == nil {
		return ""
	}
	last := of.Values().Len() - 1
	for i := 1; i <= last; i++ {
		switch {
		case i == 1:
			text = ": "
		case i == last:
			text += " or "
		default:
			text += ", "
		}
		text += string(of.Values().Get(i).Name())
	}
	return text
}

// IsOutput reports whether only answers have the field of a path, or one around it.
func IsOutput(m proto.Message, path string) bool {
	of := m.ProtoReflect().Descriptor()
	for name := range strings.SplitSeq(path, ".") {
		field := of.Fields().ByName(protoreflect.Name(name))
		switch {
		case field == nil:
			return false
		case slices.Contains(Behaviors(field), annotations.FieldBehavior_OUTPUT_ONLY):
			return true
		}
		if of = field.Message(); of == nil {
			return false
		}
	}
	return false
}
