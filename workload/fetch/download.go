package fetch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Download brings a source to a path. Unfinished, it keeps the received part in a
// part file beside the path and continues there; a second file remembers which
// version of the source the part is of.
type Download struct {
	Source
	To   string               // path of the trace; compressed if it ends in .gz or .zst
	Show func(string, ...any) // progress
	// tries without progress until the download fails; 0: 5.
	tries int
	// pause before the second try, doubled before each further one; 0: a second.
	pause time.Duration
	// stall is how long no byte may arrive; 0: a minute.
	stall time.Duration
}

// maxDownload bounds the answer of a server if the size is not known.
const maxDownload = 64 << 30

// RefusedError is a failure that another try does not change.
type RefusedError struct{ Err error }

func (r RefusedError) Error() string { return r.Err.Error() }
func (r RefusedError) Unwrap() error { return r.Err }

// UnfinishedError is a download that failed after several tries and can continue.
type UnfinishedError struct{ Err error }

func (u UnfinishedError) Error() string { return u.Err.Error() }
func (u UnfinishedError) Unwrap() error { return u.Err }

func (d *Download) part() string { return d.To + ".part" }
func (d *Download) tag() string  { return d.part() + ".tag" }

// Run downloads the missing part, checks it and extracts the trace. It returns the
// SHA-256 of the download. The part file stays until Remove, so that a
// trace that proves unreadable is not downloaded again.
func (d *Download) Run(ctx context.Context) (digest string, err error) {
	if err := d.download(ctx); err != nil {
		return "", err
	}
	if digest, err = d.check(ctx); err != nil {
		return "", err
	}
	return digest, d.extract(ctx)
}

// download downloads the missing part, trying again if the connection breaks.
func (d *Download) download(ctx context.Context) error {
	tries, wait := cmp.Or(d.tries, 5), cmp.Or(d.pause, time.Second)
	pause := wait
	for failed := 0; ; {
		before := d.have()
		err := d.attempt(ctx)
		if err == nil {
			return nil
		}
		if errors.As(err, new(RefusedError)) || ctx.Err() != nil {
			return err
		}
		if d.have() > before { // progress
			failed, wait = 0, pause
		}
		if failed++; failed >= tries {
			return UnfinishedError{fmt.Errorf("%w (tried %d times)", err, tries)}
		}
		d.Show("%v; trying again", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait *= 2
	}
}

func (d *Download) have() int64 {
	info, err := os.Stat(d.part())
	if err != nil {
		return 0
	}
	return info.Size()
}

// attempt asks for the missing part once.
func (d *Download) attempt(ctx context.Context) error {
	have := d.have()
	if d.Size > 0 && have == d.Size {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := cmp.Or(d.stall, time.Minute)
	quiet := time.AfterFunc(stall, func() { cancel(fmt.Errorf("no byte came for %v", stall)) })
	defer quiet.Stop()

	req, err := d.request(ctx, have)
	if err != nil {
		return RefusedError{err}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return causeOr(ctx, err)
	}
	defer resp.Body.Close()
	from, total, err := d.answer(resp, have)
	if err != nil || from < 0 {
		return err
	}
	if d.Size > 0 && total >= 0 && total != d.Size {
		return RefusedError{fmt.Errorf("%s: it has %d bytes, expected are %d", d.URL, total, d.Size)}
	}
	return d.receive(ctx, resp, from, total, func() { quiet.Reset(stall) })
}

// request asks for the bytes after the first have, if the server still has the
// same version of the file, else for all.
func (d *Download) request(ctx context.Context, have int64) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "autosched")
	req.Header.Set("Accept-Encoding", "identity") // the bytes as they are, so that they can be counted
	tag, _ := os.ReadFile(d.tag())
	if have > 0 && len(tag) > 0 && (d.Size == 0 || have < d.Size) {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		req.Header.Set("If-Range", string(tag))
	}
	return req, nil
}

// answer is the byte that the body begins with and the size of the whole file, -1
// if unknown. A negative from says that the part file is complete.
func (d *Download) answer(resp *http.Response, have int64) (from, total int64, err error) {
	switch code := resp.StatusCode; {
	case code == http.StatusPartialContent:
		from, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || from != have {
			os.Remove(d.tag()) // begin anew next time
			return 0, 0, fmt.Errorf("%s: asked to go on at byte %d, the server answers %q", d.URL, have,
				resp.Header.Get("Content-Range"))
		}
		return from, total, nil
	case code == http.StatusOK:
		return 0, resp.ContentLength, nil
	case code == http.StatusRequestedRangeNotSatisfiable:
		if _, total, ok := contentRange(resp.Header.Get("Content-Range")); ok && total == have {
			return -1, total, nil
		}
		os.Remove(d.tag())
		return 0, 0, fmt.Errorf("%s: the part that was downloaded is not of this file", d.URL)
	case code >= 500 || code == http.StatusTooManyRequests:
		return 0, 0, fmt.Errorf("%s: the server answers %s", d.URL, resp.Status)
	}
	return 0, 0, RefusedError{fmt.Errorf("%s: the server answers %s", d.URL, resp.Status)}
}

// receive writes the body to the part file, from the given byte on.
func (d *Download) receive(ctx context.Context, resp *http.Response, from, total int64, alive func()) (err error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if from == 0 {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(d.part(), flags, 0o644)
	if err != nil {
		return RefusedError{err}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if from == 0 {
		// A weak tag does not promise the same bytes.
		tag := resp.Header.Get("ETag")
		if tag == "" || strings.HasPrefix(tag, "W/") {
			tag = resp.Header.Get("Last-Modified")
		}
		if err := os.WriteFile(d.tag(), []byte(tag), 0o644); err != nil {
			return RefusedError{err}
		}
	}
	most := cmp.Or(d.Size, maxDownload)
	begun, have := time.Now(), from
	buf := make([]byte, 256<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			alive()
			if have += int64(n); have > most {
				return RefusedError{fmt.Errorf("%s: it is larger than %d bytes", d.URL, most)}
			}
			if _, err := f.Write(buf[:n]); err != nil {
				return RefusedError{err}
			}
			rate := float64(have-from) / 1e6 / max(time.Since(begun).Seconds(), .001)
			if total > 0 {
				d.Show("downloading: %d %% of %d MB, %.1f MB/s", 100*have/total, total/1e6, rate)
			} else {
				d.Show("downloading: %d MB, %.1f MB/s", have/1e6, rate)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return causeOr(ctx, err)
		}
	}
	if total < 0 {
		total = d.Size
	}
	if total > 0 && have != total {
		return fmt.Errorf("%s: %d of %d bytes came", d.URL, have, total)
	}
	return nil
}

// causeOr is why a request was cancelled, or err if it was not.
func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// contentRange reads "bytes 5-9/10" and "bytes */10".
func contentRange(s string) (from, all int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, size, cut := strings.Cut(s, "/")
	all, err := strconv.ParseInt(size, 10, 64)
	if !ok || !cut || err != nil {
		return 0, 0, false
	}
	if span == "*" {
		return 0, all, true
	}
	first, _, _ := strings.Cut(span, "-")
	from, err = strconv.ParseInt(first, 10, 64)
	return from, all, err == nil
}

// Resume says how an unfinished download continues.
func (d *Download) Resume() string {
	if n := d.have(); n > 0 {
		return fmt.Sprintf("%.1f MB are in %s: the same command goes on from there", float64(n)/1e6, d.part())
	}
	return "nothing has been downloaded yet"
}

// lfsPointer is the content of GitHub's raw addresses instead of a file in Git LFS.
var lfsPointer = []byte("version https://git-lfs.github.com/spec/")

// check computes the digest of the part file and compares it. A file with another
// digest is removed.
func (d *Download) check(ctx context.Context) (digest string, err error) {
	f, err := os.Open(d.part())
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, len(lfsPointer))
	if n, _ := f.ReadAt(head, 0); bytes.Equal(head[:n], lfsPointer) {
		return "", errors.Join(fmt.Errorf("%s gives a Git LFS pointer, not the file: GitHub has the file itself at "+
			"media.githubusercontent.com/media", d.URL), d.Remove())
	}
	h := sha256.New()
	if _, err := io.Copy(h, &watched{ctx: ctx, r: f,
		show: func(n int64) { d.Show("checking: %d MB", n/1e6) }}); err != nil {
		return "", err
	}
	digest = hex.EncodeToString(h.Sum(nil))
	if d.SHA256 != "" && digest != d.SHA256 {
		return "", errors.Join(fmt.Errorf("%s: its SHA-256 is %s, expected is %s; it has been deleted", d.URL, digest,
			d.SHA256), d.Remove())
	}
	return digest, nil
}

// Remove deletes the part file and its version.
func (d *Download) Remove() error {
	err := os.Remove(d.part())
	if e := os.Remove(d.tag()); e != nil && !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}
