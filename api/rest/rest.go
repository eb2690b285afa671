// Package rest is the API as HTTP and JSON: the paths of the annotations google.api.http, errors as in AIP-193, streams
// as lines of JSON or server-sent events. The handlers call the gRPC API, which decides on callers and their rights.
package rest

import (
	"bytes"
	"context"
	_ "embed" // of the document
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// OpenAPI is the document of all paths.
//
//go:embed openapi.json
var OpenAPI []byte

// Options of a handler.
type Options struct {
	// Conn is the connection to the API.
	Conn grpc.ClientConnInterface
	// Metadata returns the key of the metadata that a header of a request becomes; false: the header is dropped.
	Metadata func(header string) (key string, ok bool)
	// Admit returns an error if the request's caller may not call the method; it is asked before a body is read.
	Admit func(r *http.Request, method string) error
	// Body is the most bytes of a body, and BodyTimeout the time that it may take; a stream has 16 times as much.
	Body        int
	BodyTimeout time.Duration
}

// New returns the handler of the paths of the API.
func New(o Options) (http.Handler, error) {
	h := &handler{Options: o, routes: Routes()}
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &lines{}),
		runtime.WithMarshalerOption(eventStream, &events{}),
		runtime.WithIncomingHeaderMatcher(o.Metadata),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptReserved),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithMiddlewares(h.check),
		runtime.WithErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler,
			w http.ResponseWriter, _ *http.Request, err error) {
			Error(w, 0, err)
		}),
		runtime.WithRoutingErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler,
			w http.ResponseWriter, r *http.Request, code int) {
			routingError(w, r, code)
		}),
	)
	ctx := context.Background()
	return mux, errors.Join(
		RegisterAuditServiceHandlerClient(ctx, mux, pb.NewAuditServiceClient(o.Conn)),
		RegisterConfigurationServiceHandlerClient(ctx, mux, pb.NewConfigurationServiceClient(o.Conn)),
		RegisterFindingServiceHandlerClient(ctx, mux, pb.NewFindingServiceClient(o.Conn)),
		RegisterMaintenanceServiceHandlerClient(ctx, mux, pb.NewMaintenanceServiceClient(o.Conn)),
		RegisterMetricServiceHandlerClient(ctx, mux, pb.NewMetricServiceClient(o.Conn)),
		RegisterOperationServiceHandlerClient(ctx, mux, pb.NewOperationServiceClient(o.Conn)),
		RegisterRoundServiceHandlerClient(ctx, mux, pb.NewRoundServiceClient(o.Conn)),
		RegisterStudyServiceHandlerClient(ctx, mux, pb.NewStudyServiceClient(o.Conn)),
		RegisterTelemetryServiceHandlerClient(ctx, mux, pb.NewTelemetryServiceClient(o.Conn)),
		RegisterTuningServiceHandlerClient(ctx, mux, pb.NewTuningServiceClient(o.Conn)),
		RegisterWorkloadServiceHandlerClient(ctx, mux, pb.NewWorkloadServiceClient(o.Conn)),
		RegisterJobServiceHandlerClient(ctx, mux, pb.NewJobServiceClient(o.Conn)),
		// The path that was added last counts: rounds/1:explain before rounds/*.
		RegisterExplanationServiceHandlerClient(ctx, mux, pb.NewExplanationServiceClient(o.Conn)))
}

func routingError(w http.ResponseWriter, r *http.Request, code int) {
	switch code {
	case http.StatusMethodNotAllowed:
		Error(w, code, status.Errorf(codes.Unimplemented, "the path is not for %s", r.Method))
	case http.StatusNotFound:
		Error(w, code, status.Error(codes.NotFound, "no such path: /openapi.json has all"))
	default:
		Error(w, code, status.Error(codes.InvalidArgument, http.StatusText(code)))
	}
}

// Route is a path of a method of the API.
type Route struct {
	Method protoreflect.MethodDescriptor
	Verb   string // of HTTP
	Path   string // with its variables
	Body   bool   // the request may have one
	// Query are the fields of the request that the query may have, by both names.
	Query []string
}

// FullMethod is the method's name in gRPC.
func (r Route) FullMethod() string {
	return fmt.Sprintf("/%s/%s", r.Method.Parent().FullName(), r.Method.Name())
}

// Routes returns all routes, by verb and path.
func Routes() map[string]Route {
	all := map[string]Route{}
	protoregistry.GlobalFiles.RangeFilesByPackage("autosched.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for k := range methods.Len() {
				rule := proto.GetExtension(methods.Get(k).Options(), annotations.E_Http).(*annotations.HttpRule)
				for _, r := range slices.Concat([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()) {
					if route, ok := routeOf(methods.Get(k), r); ok {
						all[route.Verb+" "+route.Path] = route
					}
				}
			}
		}
		return true
	})
	return all
}

func routeOf(m protoreflect.MethodDescriptor, r *annotations.HttpRule) (Route, bool) {
	rule := r.ProtoReflect()
	verb := rule.WhichOneof(rule.Descriptor().Oneofs().ByName("pattern"))
	if verb == nil || verb.Kind() != protoreflect.StringKind {
		return Route{}, false
	}
	route := Route{Method: m, Verb: strings.ToUpper(string(verb.Name())), Path: rule.Get(verb).String(),
		Body: r.GetBody() != ""}
	for i := range m.Input().Fields().Len() {
		f := m.Input().Fields().Get(i)
		inPath := strings.Contains(route.Path, "{"+string(f.Name())+"=")
		if r.GetBody() != "*" && r.GetBody() != string(f.Name()) && !inPath {
			route.Query = append(route.Query, string(f.Name()), f.JSONName())
		}
	}
	return route, true
}

type handler struct {
	Options
	routes map[string]Route
}

// check refuses requests whose parts would be ignored or that do not fit into memory, and reads bodies.
func (h *handler) check(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		pattern, _ := runtime.HTTPPattern(r.Context())
		route := h.routes[r.Method+" "+pattern.String()]
		if err := h.Admit(r, route.FullMethod()); err != nil {
			Error(w, 0, err)
			return
		}
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			Error(w, 0, status.Errorf(codes.InvalidArgument, "the query: %v", err))
			return
		}
		texts := slices.Collect(maps.Values(params))
		for key, values := range query {
			if !slices.Contains(route.Query, key) {
				Error(w, 0, status.Errorf(codes.InvalidArgument, "%.80q is not a parameter of this path", key))
				return
			}
			texts = append(texts, values...)
		}
		if !utf8.ValidString(strings.Join(texts, " ")) {
			Error(w, 0, status.Error(codes.InvalidArgument, "the path or its query is not UTF-8"))
			return
		}
		if mask := query.Get("updateMask"); mask != "" {
			query.Set("updateMask", capital.ReplaceAllStringFunc(mask, func(c string) string {
				return "_" + strings.ToLower(c)
			}))
		}
		if id := r.Header.Get("Last-Event-ID"); id != "" && slices.Contains(route.Query, "resume_token") {
			query.Del("resume_token")
			query.Set("resumeToken", id)
			query.Del("send_initial_events") // they were received before the token
			query.Del("sendInitialEvents")
		}
		r.URL.RawQuery = query.Encode()
		switch streams, media := route.Method.IsStreamingClient(), mediaType(r); {
		case r.ContentLength == 0:
		case !route.Body:
			Error(w, 0, status.Error(codes.InvalidArgument, "this path takes no body"))
			return
		case media != "application/json" && (media != ndjson || !streams):
			Error(w, http.StatusUnsupportedMediaType, status.Error(codes.InvalidArgument,
				"a body needs the header Content-Type: application/json, or application/x-ndjson for a stream"))
			return
		default:
			body, ok := h.body(w, r, route)
			if !ok {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next(w, r, params)
	}
}

// capital begins a word of a field in a mask in JSON.
var capital = regexp.MustCompile(`[A-Z]`)

func mediaType(r *http.Request) string {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}

// streamBodies is the factor of a stream's body.
const streamBodies = 16

// body reads and checks a body whole: the messages of a stream are sent if all of them are right. It answers if that
// is not so.
func (h *handler) body(w http.ResponseWriter, r *http.Request, route Route) (body []byte, ok bool) {
	control, times := http.NewResponseController(w), 1
	if route.Method.IsStreamingClient() {
		times = streamBodies
	}
	_ = control.SetReadDeadline(time.Now().Add(time.Duration(times) * h.BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(times)*int64(h.Body)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		Error(w, http.StatusRequestEntityTooLarge, status.Errorf(codes.ResourceExhausted,
			"the body has more than %d bytes", large.Limit))
		return nil, false
	case err != nil:
		w.Header().Set("Connection", "close")
		Error(w, http.StatusRequestTimeout, status.Error(codes.DeadlineExceeded, "the body did not arrive"))
		return nil, false
	}
	_ = control.SetReadDeadline(time.Time{})
	if times == 1 {
		if !json.Valid(body) {
			Error(w, 0, status.Error(codes.InvalidArgument, "the body is not one value of JSON"))
			return nil, false
		}
		return body, true
	}
	for d, n := json.NewDecoder(bytes.NewReader(body)), 1; d.More(); n++ {
		var text json.RawMessage
		err := d.Decode(&text)
		if err == nil {
			err = protojson.Unmarshal(text, dynamicpb.NewMessage(route.Method.Input()))
		}
		if err != nil {
			Error(w, 0, status.Errorf(codes.InvalidArgument, "message %d of the body: %v", n, err))
			return nil, false
		}
	}
	return body, true
}
