package server

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/autosched/autosched/api/convert"
)

// listRequest is what the requests of lists with pages have.
type listRequest interface {
	proto.Message
	GetPageToken() string
	GetPageSize() int32
}

// list is a list of resources, in an order of its own: by name, or newest first.
type list[T proto.Message] struct {
	// some returns up to n elements that follow a place, all those there are if fewer.
	some func(after token, n int) ([]T, error)
	// place is where an element is.
	place func(T) token
	// lacks are fields that elements have only where they are got one by one.
	lacks []string
}

// errGone is the error of a token whose element is not in the list any more.
var errGone = convert.Invalid("page_token", "is of an element that is gone: list again without it")

// manyElements are read at once where most may not match.
const manyElements = 500

// page returns a page of what matches, in the order that is asked for, and the token of the next page.
func (l list[T]) page(k pager, req interface {
	listRequest
	GetFilter() string
}) (out []T, next string, err error) {
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, "", err
	}
	var none T
	of := none.ProtoReflect().Descriptor()
	terms, err := parseFilter(req.GetFilter(), of, l.lacks)
	if err != nil {
		return nil, "", err
	}
	var keys []sortKey
	if o, ok := req.(interface{ GetOrderBy() string }); ok {
		if keys, err = parseOrder(o.GetOrderBy(), of, l.lacks); err != nil {
			return nil, "", err
		}
	}
	t, err := k.after(req)
	if err != nil {
		return nil, "", err
	}
	from, most, chunk := t, size+1, size+1
	if len(keys) > 0 {
		from, most = token{}, -1
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
			at := slices.IndexFunc(all, func(x T) bool { return l.place(x) == t })
			if at < 0 {
				return nil, "", errGone
			}
			all = all[at+1:]
		}
	}
	if len(all) > size {
		all = all[:size]
		next = k.next(req, l.place(all[size-1]))
	}
	return all, next, nil
}

// matching returns what meets all terms after a place, in the list's own order: at most a number, or all if
// it is negative.
func (l list[T]) matching(terms []term, after token, chunk, most int) (out []T, err error) {
	for {
		some, err := l.some(after, chunk)
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
		after = l.place(some[len(some)-1])
	}
}

// mapped converts elements.
func mapped[A, B any](in []A, to func(*A) B) []B {
	out := make([]B, len(in))
	for i := range in {
		out[i] = to(&in[i])
	}
	return out
}
