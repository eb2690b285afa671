package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// apiPackage has the messages whose fields have behaviours.
const apiPackage = "autosched.v1"

// behaviors are the google.api.field_behavior of a field.
func behaviors(f protoreflect.FieldDescriptor) []annotations.FieldBehavior {
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
		of := behaviors(field)
		if slices.Contains(of, annotations.FieldBehavior_OUTPUT_ONLY) {
			f.output = append(f.output, field)
			continue
		}
		if slices.Contains(of, annotations.FieldBehavior_REQUIRED) {
			f.required = append(f.required, field)
		}
		if inside := field.Message(); inside != nil && !field.IsMap() && inside.ParentFile().Package() == apiPackage {
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

// ignoreOutput clears what only answers have, as AIP-203 asks for.
func ignoreOutput(m protoreflect.Message) {
	of := behaviorOf(m.Descriptor())
	for _, field := range of.output {
		m.Clear(field)
	}
	of.within(m, "", func(in protoreflect.Message, _ string) { ignoreOutput(in) })
}

// addMissing adds a violation for each required field that a message lacks.
func addMissing(v *violations, m protoreflect.Message, at string) {
	of := behaviorOf(m.Descriptor())
	for _, field := range of.required {
		if !m.Has(field) {
			v.add(at+string(field.Name()), "is required%s", choices(field.Enum()))
		}
	}
	of.within(m, at, func(in protoreflect.Message, at string) { addMissing(v, in, at+".") })
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

// missing are the fields that a request has to have and lacks. Handlers find them where they name all that is wrong,
// where a mask says what counts, and where elements are refused one by one.
func missing(req proto.Message) (v violations) {
	switch r := req.(type) {
	case *pb.CreateSchedulerRequest, *pb.UpdateSchedulerRequest:
	case *pb.IngestTelemetryRequest:
		if r.GetParent() == "" {
			v.add("parent", "is required")
		}
	default:
		addMissing(&v, req.ProtoReflect(), "")
	}
	return v
}

// behave holds requests to the google.api.field_behavior of their fields.
func (s *Server) behave(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if m, ok := req.(proto.Message); ok && m.ProtoReflect().Descriptor().ParentFile().Package() == apiPackage {
		if err := missing(m).err(); err != nil {
			return nil, err
		}
		ignoreOutput(m.ProtoReflect())
	}
	return handle(ctx, req)
}

// isOutput reports whether only answers have the field of a path, or one around it.
func isOutput(m proto.Message, path string) bool {
	of := m.ProtoReflect().Descriptor()
	for name := range strings.SplitSeq(path, ".") {
		field := of.Fields().ByName(protoreflect.Name(name))
		switch {
		case field == nil:
			return false
		case slices.Contains(behaviors(field), annotations.FieldBehavior_OUTPUT_ONLY):
			return true
		}
		if of = field.Message(); of == nil {
			return false
		}
	}
	return false
}
