package rpc

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
)

// Token is a place in a list or a watch. Callers treat its text as opaque.
type Token struct {
	Of       string `json:"o,omitempty"` // the uid of a watch's scheduler
	After    string `json:"a,omitempty"` // the last id listed
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
