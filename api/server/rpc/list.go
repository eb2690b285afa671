package rpc

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
)

// ListRequest is a request of a list with pages.
type ListRequest interface {
	proto.Message
	GetPageToken() string
	GetPageSize() int32
}

// List is a list of resources, in an order of its own: by name, or newest first.
type List[T proto.Message] struct {
	// Some returns up to n elements that follow a place, all that there are if fewer.
	Some func(after Token, n int) ([]T, error)
	// Place is where an element is.
	Place func(T) Token
	// Lacks are fields that elements have only where they are got one by one.
	Lacks []string
}

// manyElements are read at once where most may not match.
const manyElements = 500

// Page returns a page of the matching elements, in the order that is asked for, and the token of the next page.
func (l List[T]) Page(k Pager, req interface {
	ListRequest
	GetFilter() string
}) (out []T, next string, err error) {
	size, err := PageSize(req.GetPageSize())
	if err != nil {
		return nil, "", err
	}
	var none T
	of := none.ProtoReflect().Descriptor()
	terms, err := parseFilter(req.GetFilter(), of, l.Lacks)
	if err != nil {
		return nil, "", err
	}
	var keys []sortKey
	if o, ok := req.(interface{ GetOrderBy() string }); ok {
		if keys, err = parseOrder(o.GetOrderBy(), of, l.Lacks); err != nil {
			return nil, "", err
		}
	}
	t, err := k.After(req)
	if err != nil {
		return nil, "", err
	}
	from, most, chunk := t, size+1, size+1
	if len(keys) > 0 {
		from, most = Token{}, -1
	}
	if len(keys)+len(terms) > 0 {
		chunk = max(chunk, manyElements)
	}
	all, err := l.matching(terms, from, chunk, most)
	if err != nil {
		return nil, "", err
	}
	if len(keys) > 0 {
		slices.SortStableFunc(all, func(a, b T) int { return byKeys(keys, a, b) })
		if req.GetPageToken() != "" {
			at := slices.IndexFunc(all, func(x T) bool { return l.Place(x) == t })
			if at < 0 {
				return nil, "", ErrGone
			}
			all = all[at+1:]
		}
	}
	if len(all) > size {
		all = all[:size]
		next = k.Next(req, l.Place(all[size-1]))
	}
	return all, next, nil
}

// matching returns the elements that meet all terms after a place, in the list's own order: at most a number, or all if
// it is negative.
func (l List[T]) matching(terms []term, after Token, chunk, most int) (out []T, err error) {
	for {
		some, err := l.Some(after, chunk)
		if err != nil {
			return nil, err
		}
		for _, x := range some {
			if slices.ContainsFunc(terms, func(t term) bool { return !t.holds(x) }) {
				continue
			}
			if out = append(out, x); len(out) == most {
				return out, nil
			}
		}
		if len(some) < chunk {
			return out, nil
		}
		after = l.Place(some[len(some)-1])
	}
}

// Map converts elements.
func Map[A, B any](in []A, to func(*A) B) []B {
	out := make([]B, len(in))
	for i := range in {
		out[i] = to(&in[i])
	}
	return out
}

const defaultPage, maxPage = 50, 1000

// PageSize bounds the size of a page.
func PageSize(n int32) (int, error) {
	switch {
	case n < 0:
		return 0, convert.Invalid("page_size", "%d is negative", n)
	case n == 0:
		return defaultPage, nil
	}
	return min(int(n), maxPage), nil
}

// MaxAhead bounds how far times of callers may be ahead of the service's clock.
const MaxAhead = 24 * time.Hour

// Token is a place in a list or a watch. Callers treat its text as opaque.
type Token struct {
	Of       string `json:"o,omitempty"` // the uid of a watch's scheduler
	After    string `json:"a,omitempty"` // the last id listed
	Event    string `json:"v,omitempty"` // the event that the last one listed is of
	Revision int64  `json:"r,omitempty"` // the last revision listed or sent
	// Epoch is that of a watch.
	Epoch controller.Epoch `json:"e,omitzero"`
}

func (t Token) marshal() []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic("server: token does not marshal: " + err.Error())
	}
	return b
}

func (t Token) String() string { return base64.RawURLEncoding.EncodeToString(t.marshal()) }

// ParseToken reads a token made for the same watch; the zero token if there is no text.
func ParseToken(field, text, of string) (t Token, err error) {
	if text == "" {
		return t, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &t) != nil || t.Revision < 0 {
		return t, convert.Invalid(field, "is not one that this service gave")
	}
	if t.Of != of {
		return t, convert.Invalid(field, "belongs to another request")
	}
	return t, nil
}

// Pager is the secret by which tokens of pages are known to be the service's, and of the same request.
type Pager []byte

// sum is the signature of a place in the list that a request asks for, whatever page of it.
func (k Pager) sum(req ListRequest, place []byte) []byte {
	content := proto.Clone(req)
	m := content.ProtoReflect()
	for _, of := range []protoreflect.Name{"page_size", "page_token"} {
		m.Clear(m.Descriptor().Fields().ByName(of))
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(content)
	if err != nil {
		panic("server: a request does not marshal: " + err.Error())
	}
	mac := hmac.New(sha256.New, k)
	for _, part := range [][]byte{[]byte(m.Descriptor().FullName()), text, place} {
		fmt.Fprintf(mac, "%d ", len(part))
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// Next is the text of the token of the page that follows a place.
func (k Pager) Next(req ListRequest, t Token) string {
	place := t.marshal()
	return base64.RawURLEncoding.EncodeToString(append(k.sum(req, place), place...))
}

// After is the place that the page of a request follows, the zero token for the first page.
func (k Pager) After(req ListRequest) (t Token, err error) {
	if req.GetPageToken() == "" {
		return t, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err == nil && len(b) > sha256.Size {
		place := b[sha256.Size:]
		if hmac.Equal(b[:sha256.Size], k.sum(req, place)) && json.Unmarshal(place, &t) == nil {
			return t, nil
		}
	}
	return Token{}, convert.Invalid("page_token",
		"is not one that this service gave for this request, whose other fields "+
			"stay the same from page to page: list again without it")
}
