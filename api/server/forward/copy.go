package forward

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/rest"
)

// Keys of metadata and headers of reads that may be answered from a copy of the records.
const (
	maxStalenessKey = "autosched-max-staleness" // of calls: how old the answer may be, as in 5s
	stalenessKey    = "autosched-staleness"     // of answers from a copy: how old it is at most
)

// Copy answers reads from the node's own copy of the records.
type Copy struct {
	// Has reports whether the copy can answer a method.
	Has func(method string) bool
	// Read returns a reader of a state that has every write which was acknowledged before an instant at most max ago.
	// Age is the time since that instant.
	Read func(max time.Duration) (r Reader, age func() time.Duration, err error)
}

// Reader answers calls with the evidence of their callers.
type Reader interface {
	Conn() *grpc.ClientConn
	Web() http.Handler
}

// bound is how old the answer to a call may be. It is 0 of a call that does not say so.
func bound(values []string) (time.Duration, error) {
	if len(values) == 0 {
		return 0, nil
	}
	d, err := time.ParseDuration(values[0])
	if err != nil || d < 0 || len(values) > 1 {
		return 0, status.Errorf(codes.InvalidArgument, "%s: %.80q is not one duration of at least 0, such as 5s",
			maxStalenessKey, strings.Join(values, ", "))
	}
	return d, nil
}

// elsewhere reports whether the leader may answer otherwise than by an error of a copy: its access files may be newer.
func elsewhere(err error) bool {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unavailable, codes.Internal, codes.Unimplemented,
		codes.Unknown, codes.DataLoss, codes.Aborted:
		return true
	}
	return false
}

// fromCopy answers a call from the copy. It returns false if the leader must answer, and the error of the copy, if that
// is why.
func (f *Front) fromCopy(down grpc.ServerStream, method string, request *frame, most time.Duration) (bool, error) {
	reader, age, err := f.copy.Read(most)
	if err != nil {
		f.log.Debug("no answer from the copy", "method", method, "err", err)
		return false, nil
	}
	var answer frame
	var header, trailer metadata.MD
	err = reader.Conn().Invoke(outgoing(down.Context()), method, request, &answer, grpc.ForceCodec(raw{}),
		grpc.Header(&header), grpc.Trailer(&trailer))
	old := age()
	if elsewhere(err) || old > most {
		return false, err
	}
	header.Set(stalenessKey, old.String())
	_ = down.SetHeader(header) // a caller that is gone fails the message, too
	down.SetTrailer(trailer)
	if err != nil {
		return true, err
	}
	return true, down.SendMsg(&answer)
}

// written is an answer by HTTP that is not sent yet.
type written struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header, WriteHeader and Write implement [http.ResponseWriter].
func (w *written) Header() http.Header { return w.header }

func (w *written) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

func (w *written) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// webFromCopy answers a request from the copy, or reports that the leader must.
func (f *Front) webFromCopy(w http.ResponseWriter, r *http.Request) bool {
	values := r.Header.Values(maxStalenessKey)
	most, err := bound(values)
	if err != nil {
		rest.Error(w, 0, err)
		return true
	}
	if f.copy == nil || most == 0 || r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/v1/") {
		return false
	}
	reader, age, err := f.copy.Read(most)
	if err != nil {
		f.log.Debug("no answer from the copy", "path", r.URL.Path, "err", err)
		return false
	}
	in := r.Clone(r.Context())
	sign(in, r)
	out := &written{header: http.Header{}}
	reader.Web().ServeHTTP(out, in)
	old := age()
	if old > most || out.code == http.StatusUnauthorized || out.code == http.StatusForbidden ||
		out.code >= http.StatusInternalServerError {
		return false
	}
	for key, values := range out.header {
		w.Header()[key] = values
	}
	w.Header().Set(stalenessKey, old.String())
	w.WriteHeader(out.code)
	_, _ = w.Write(out.body.Bytes()) // the caller may be gone
	return true
}

// placeTime bounds a question for the place of the log.
const placeTime = 2 * time.Second

// Place asks the leader for an entry of the log up to which all writes are that were acknowledged before the call. It
// must not be called concurrently.
func (f *Front) Place(ctx context.Context) (at uint64, err error) {
	to, err := f.route()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, placeTime)
	defer cancel()
	if f.asked != to || f.asking == nil {
		f.HangUp()
		dialer := tls.Dialer{Config: f.identity.dial(to.leader.Certificate, protocolPlace)}
		if f.asking, err = dialer.DialContext(ctx, "tcp", to.leader.Address); err != nil {
			f.asking = nil // not a Conn of nil
			return 0, err
		}
		f.asked = to
		if f.asking.(*tls.Conn).ConnectionState().NegotiatedProtocol != protocolPlace {
			f.HangUp()
			return 0, errors.New("the leader is of a version that does not tell the place of the log")
		}
	}
	conn := f.asking
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	var answer [8]byte
	if _, err = conn.Write([]byte{0}); err == nil {
		_, err = io.ReadFull(conn, answer[:])
	}
	if err != nil {
		f.HangUp() // an answer that comes late must not be taken for one to a later question
		return 0, fmt.Errorf("place of the log: %w", err)
	}
	return binary.BigEndian.Uint64(answer[:]), nil
}

// HangUp ends the connection of Place.
func (f *Front) HangUp() {
	if f.asking != nil {
		_ = f.asking.(*tls.Conn).NetConn().Close() // without a farewell, which could wait for the peer
		f.asking = nil
	}
}

// refused is an error of a copy that stands where no leader can judge.
func refused(own, err error) bool {
	return own != nil && (status.Code(own) == codes.Unauthenticated || status.Code(own) == codes.PermissionDenied) &&
		status.Code(err) == codes.Unavailable
}
