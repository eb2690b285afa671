package rest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	codepb "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// Types of media of streams.
const (
	ndjson      = "application/x-ndjson"
	eventStream = "text/event-stream"
)

// failure is an error in JSON: AIP-193.
type failure struct {
	Code    int               `json:"code"`
	Status  string            `json:"status"`
	Message string            `json:"message"`
	Details []json.RawMessage `json:"details"`
}

// Error answers with an error of the API and an HTTP code, that of the error's if 0.
func Error(w http.ResponseWriter, code int, err error) {
	st := status.Convert(err)
	if code == 0 {
		code = runtime.HTTPStatusFromCode(st.Code())
	}
	for _, d := range st.Details() {
		if retry, ok := d.(*errdetails.RetryInfo); ok {
			wait := math.Ceil(retry.GetRetryDelay().AsDuration().Seconds())
			w.Header().Set("Retry-After", strconv.FormatFloat(max(1, wait), 'f', 0, 64))
		}
	}
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	for _, of := range []string{"Trailer", "Transfer-Encoding", "Content-Length"} {
		w.Header().Del(of)
	}
	w.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(map[string]failure{"error": failureOf(st.Proto(), code)})
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":{"code":500,"status":"INTERNAL"}}`)
	}
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}

// Limited is the error of a caller that is to wait.
func Limited(wait time.Duration, text string) error {
	st := status.New(codes.ResourceExhausted, text)
	if full, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); err == nil {
		st = full
	}
	return st.Err()
}

// failureOf adds a google.rpc.ErrorInfo to errors that have none: its reason is the code's name.
func failureOf(st *spb.Status, code int) failure {
	f := failure{Code: code, Status: codepb.Code(st.GetCode()).String(), Message: st.GetMessage()}
	described := false
	for _, d := range st.GetDetails() {
		described = described || d.MessageIs(&errdetails.ErrorInfo{})
		if text, err := protojson.Marshal(d); err == nil {
			f.Details = append(f.Details, text)
		}
	}
	if !described {
		f.Details = append(f.Details, json.RawMessage(fmt.Sprintf(
			`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":%q,"domain":%q}`, f.Status, pb.ErrorDomain)))
	}
	return f
}

// lines reads and writes JSON, a stream as lines.
type lines struct{ runtime.JSONPb }

// StreamContentType implements [runtime.StreamContentType].
func (*lines) StreamContentType(any) string { return ndjson }

// Marshal implements [runtime.Marshaler].
func (l *lines) Marshal(v any) ([]byte, error) {
	if chunk, ok := v.(map[string]proto.Message); ok { // of a stream that failed
		st, _ := chunk["error"].(*spb.Status)
		return json.Marshal(map[string]failure{"error": failureOf(st,
			runtime.HTTPStatusFromCode(codes.Code(st.GetCode())))})
	}
	return l.JSONPb.Marshal(v)
}

// events writes a stream as server-sent events: the id is the token that resumes after an event, its name the field
// that is set.
type events struct{ lines }

// StreamContentType implements [runtime.StreamContentType].
func (*events) StreamContentType(any) string { return eventStream }

// ContentType implements [runtime.Marshaler].
func (e *events) ContentType(v any) string {
	if _, ok := v.(map[string]proto.Message); ok {
		return eventStream
	}
	return e.lines.ContentType(v)
}

// Marshal implements [runtime.Marshaler].
func (e *events) Marshal(v any) ([]byte, error) {
	name, id, data := "error", "", []byte(nil)
	var err error
	switch v := v.(type) {
	case map[string]proto.Message:
		data, err = e.lines.Marshal(v)
	case map[string]any:
		m, ok := v["result"].(proto.Message)
		if !ok {
			return nil, fmt.Errorf("rest: %T is not a message", v["result"])
		}
		r := m.ProtoReflect()
		name = "message"
		if kinds := r.Descriptor().Oneofs(); kinds.Len() > 0 {
			if f := r.WhichOneof(kinds.Get(0)); f != nil {
				name = string(f.Name())
			}
		}
		if f := r.Descriptor().Fields().ByName("resume_token"); f != nil {
			id = r.Get(f).String()
		}
		data, err = e.lines.Marshal(m)
	default:
		return e.lines.Marshal(v)
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Appendf(nil, "event: %s\n%sdata: %s\n", name, id, data), err
}
