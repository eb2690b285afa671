package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type object = map[string]any

// document writes the OpenAPI document of the API as HTTP and JSON.
type document struct {
	paths   map[string]object
	schemas object
}

// openAPI returns the document of the methods that have a path.
func openAPI(files []protoreflect.FileDescriptor) ([]byte, error) {
	d := document{paths: map[string]object{}, schemas: object{"Error": errorSchema(), "Session": sessionSchema()}}
	var tags []object
	for _, f := range files {
		for i := range f.Services().Len() {
			s, found := f.Services().Get(i), false
			for k := range s.Methods().Len() {
				m := s.Methods().Get(k)
				rule := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
				for n, r := range slices.Concat([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()) {
					if r.GetPattern() == nil {
						continue
					}
					found = true
					if err := d.method(m, r, n); err != nil {
						return nil, err
					}
				}
			}
			if found {
				tags = append(tags, object{"name": s.Name(), "description": text(s)})
			}
		}
	}
	d.session()
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{"title": "AutoSched", "version": "v1", "license": object{"name": "Apache 2.0",
			"identifier": "Apache-2.0"}, "description": "The API autosched.v1 as HTTP and JSON: docs/reference/rest.md."},
		"tags":  append(tags, object{"name": "Session", "description": "Sign-in of browsers."}),
		"paths": d.paths,
		"components": object{"schemas": d.schemas, "securitySchemes": object{
			"token":       object{"type": "http", "scheme": "bearer"},
			"certificate": object{"type": "mutualTLS"},
			"session":     object{"type": "apiKey", "in": "cookie", "name": "autosched-PORT"}}},
		"security": []object{{"token": []string{}}, {"certificate": []string{}}, {"session": []string{}}, {}},
	}, "", " ")
}

var variable = regexp.MustCompile(`\{([a-z_.]+)=([^}]*)\}`)

// expand returns a path whose wildcards are parameters, the parameters, and the field that they are part of.
func expand(path string) (out string, names []string, field string) {
	out = variable.ReplaceAllStringFunc(path, func(v string) string {
		of := variable.FindStringSubmatch(v)
		field = of[1]
		parts := strings.Split(of[2], "/")
		for i, p := range parts {
			if p == "*" {
				name := strings.TrimSuffix(parts[i-1], "s")
				if stem, ok := strings.CutSuffix(name, "ie"); ok {
					name = stem + "y"
				}
				names = append(names, name)
				parts[i] = "{" + name + "}"
			}
		}
		return strings.Join(parts, "/")
	})
	return out, names, field
}

func (d *document) method(m protoreflect.MethodDescriptor, r *annotations.HttpRule, n int) error {
	rule := r.ProtoReflect()
	verb := rule.WhichOneof(rule.Descriptor().Oneofs().ByName("pattern"))
	if verb.Kind() != protoreflect.StringKind {
		return fmt.Errorf("%s: no path for %s", m.FullName(), verb.Name())
	}
	path, names, bound := expand(rule.Get(verb).String())
	op := object{"operationId": string(m.Parent().Name()) + "_" + string(m.Name()), "tags": []any{m.Parent().Name()},
		"description": text(m)}
	if n > 0 {
		op["operationId"] = fmt.Sprintf("%v_%d", op["operationId"], n+1)
	}
	var parameters []object
	for _, name := range names {
		parameters = append(parameters, object{"name": name, "in": "path", "required": true,
			"schema": object{"type": "string"}})
	}
	in := m.Input().Fields()
	for i := range in.Len() {
		f := in.Get(i)
		if string(f.Name()) == bound || r.GetBody() == "*" || string(f.Name()) == r.GetBody() {
			continue
		}
		if t := f.Message(); t != nil && plain[t.FullName()] == nil {
			return fmt.Errorf("%s: no query for %s", m.FullName(), f.FullName())
		}
		parameters = append(parameters, object{"name": f.JSONName(), "in": "query", "description": text(f),
			"required": slices.Contains(behaviours(f), annotations.FieldBehavior_REQUIRED), "schema": d.field(f)})
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	switch body := r.GetBody(); {
	case body == "*":
		d.message(m.Input(), bound)
		media := "application/json"
		if m.IsStreamingClient() {
			media = "application/x-ndjson"
		}
		op["requestBody"] = object{"required": true, "content": object{media: object{"schema": ref(m.Input())}}}
	case body != "":
		op["requestBody"] = object{"required": true, "content": object{"application/json": object{
			"schema": d.field(in.ByName(protoreflect.Name(body)))}}}
	}
	answer := object{"application/json": object{"schema": d.typed(m.Output())}}
	if m.IsStreamingServer() {
		line := object{"type": "object", "properties": object{"result": d.typed(m.Output()),
			"error": object{"$ref": "#/components/schemas/Error/properties/error"}}}
		answer = object{"application/x-ndjson": object{"schema": line}}
		if !m.IsStreamingClient() && strings.HasPrefix(string(m.Name()), "Watch") {
			answer["text/event-stream"] = object{"schema": d.typed(m.Output())}
		}
	}
	op["responses"] = answers("The answer.", answer)
	d.add(path, string(verb.Name()), op)
	return nil
}

func (d *document) add(path, verb string, op object) {
	if d.paths[path] == nil {
		d.paths[path] = object{}
	}
	d.paths[path][verb] = op
}

func answers(description string, content object) object {
	ok := object{"description": description}
	if content != nil {
		ok["content"] = content
	}
	return object{"200": ok, "default": object{"description": "An error.", "content": object{
		"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}}}}
}

// session adds the paths of sign-in, which are not of the API.
func (d *document) session() {
	session := object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Session"}}}
	op := func(name, description string, answer object) object {
		return object{"operationId": name, "tags": []string{"Session"}, "description": description, "responses": answer}
	}
	d.add("/session", "get", op("Session_Get", "The caller, and the methods that it may call.",
		answers("The caller.", session)))
	in := op("Session_SignIn", "Exchanges a token for a cookie.", answers("The caller.", session))
	in["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": object{
		"type": "object", "required": []string{"token"}, "properties": object{"token": object{"type": "string"}}}}}}
	d.add("/session", "post", in)
	d.add("/session", "delete", op("Session_SignOut", "Ends the session of the cookie.",
		answers("There is no session.", nil)))
}

func sessionSchema() object {
	word := func(text string) object { return object{"type": "string", "description": text} }
	return object{"type": "object", "properties": object{
		"name":       word("The caller's name in the roles file."),
		"role":       word("Its role."),
		"scheduler":  word("The scheduler that it is, for role scheduler."),
		"credential": word("The evidence of the identity: none, token, certificate or session."),
		"expireTime": object{"type": "string", "format": "date-time", "description": "The latest end of the session."},
		"methods": object{"type": "array", "items": object{"type": "string"},
			"description": "The methods of the API that the role allows."}}}
}

// errorSchema is the JSON of an error: AIP-193.
func errorSchema() object {
	return object{"type": "object", "properties": object{"error": object{"type": "object", "properties": object{
		"code":    object{"type": "integer", "description": "The HTTP code."},
		"status":  object{"type": "string", "description": "The code of gRPC, such as NOT_FOUND."},
		"message": object{"type": "string"},
		"details": object{"type": "array", "items": object{"type": "object"},
			"description": "google.rpc.ErrorInfo with the reason, BadRequest, RetryInfo."}}}}}
}

// plain has the schemas of messages with a JSON form of their own.
var plain = map[protoreflect.FullName]object{
	"google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
	"google.protobuf.Duration":  {"type": "string", "pattern": `^-?[0-9]+(\.[0-9]+)?s$`},
	"google.protobuf.FieldMask": {"type": "string"},
	"google.protobuf.Struct":    {"type": "object"},
	"google.protobuf.Value":     {},
	"google.protobuf.Empty":     {"type": "object"},
}

func ref(m protoreflect.MessageDescriptor) object {
	return object{"$ref": "#/components/schemas/" + local(m)}
}

// typed is the schema of a message, whose component it adds.
func (d *document) typed(m protoreflect.MessageDescriptor) object {
	if s := plain[m.FullName()]; s != nil {
		return maps.Clone(s)
	}
	d.message(m, "")
	return ref(m)
}

// message adds the component of a message, without the field that a path has.
func (d *document) message(m protoreflect.MessageDescriptor, bound string) {
	if d.schemas[local(m)] != nil {
		return
	}
	properties := object{}
	s := object{"type": "object", "properties": properties}
	if about := text(m); about != "" {
		s["description"] = about
	}
	d.schemas[local(m)] = s
	var required []string
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if string(f.Name()) == bound {
			continue
		}
		one := d.field(f)
		if about := text(f); about != "" {
			one["description"] = about
		}
		switch all := behaviours(f); {
		case slices.Contains(all, annotations.FieldBehavior_REQUIRED):
			required = append(required, f.JSONName())
		case slices.Contains(all, annotations.FieldBehavior_OUTPUT_ONLY):
			one["readOnly"] = true
		}
		properties[f.JSONName()] = one
	}
	if required != nil {
		s["required"] = required
	}
}

func (d *document) field(f protoreflect.FieldDescriptor) object {
	switch {
	case f.IsMap():
		return object{"type": "object", "additionalProperties": d.value(f.MapValue())}
	case f.IsList():
		return object{"type": "array", "items": d.value(f)}
	}
	return d.value(f)
}

// value is the schema of one value of a field.
func (d *document) value(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return d.typed(f.Message())
	case protoreflect.EnumKind:
		var names []string
		for i := range f.Enum().Values().Len() {
			names = append(names, string(f.Enum().Values().Get(i).Name()))
		}
		return object{"type": "string", "enum": names}
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.BytesKind:
		return object{"type": "string", "format": "byte"}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return object{"type": "number", "format": f.Kind().String()}
	case protoreflect.Int32Kind, protoreflect.Uint32Kind:
		return object{"type": "integer", "format": f.Kind().String()}
	case protoreflect.Int64Kind, protoreflect.Uint64Kind:
		return object{"type": "string", "format": f.Kind().String()}
	}
	return object{"type": "string"}
}

// text is the comment of a descriptor, "" without one.
func text(d protoreflect.Descriptor) string {
	comment := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	return strings.TrimSpace(strings.ReplaceAll(comment, "\n ", "\n"))
}
