package client

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reasons of the service's errors, in google.rpc.ErrorInfo.
const (
	reasonEpoch   = "EPOCH_MISMATCH"
	reasonQuota   = "QUOTA_EXCEEDED"
	reasonRefused = "CONFIGURATION_REFUSED"
	reasonResync  = "RESYNC"
)

// Reason is the reason of an error of the service, such as EPOCH_MISMATCH; "" if it has
// none.
func Reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// retryDelay is how long the service asks to wait before the call is repeated.
func retryDelay(err error) (time.Duration, bool) {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}

// Transient reports whether the same call may succeed later.
func Transient(err error) bool {
	switch status.Code(err) {
	// The service cancels calls when it stops; the client's own context is looked at first.
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Canceled:
		return true
	case codes.ResourceExhausted:
		return !tooLarge(err)
	}
	return false
}

// tooLarge reports whether a request is beyond a limit that waiting does not change.
func tooLarge(err error) bool {
	_, later := retryDelay(err)
	reason := Reason(err)
	return status.Code(err) == codes.ResourceExhausted && !later && (reason == "" || reason == reasonQuota)
}

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 10 * time.Second
)

// retrying is the delay between attempts: it doubles up to a bound, and is spread by half.
type retrying struct {
	random func() float64 // from 0 to 1
	failed int            // attempts in a row
	last   string         // error of the last one
}

// delay counts a failed attempt and returns how long to wait. news reports whether it
// failed in another way than the attempt before.
func (r *retrying) delay(err error) (d time.Duration, news bool) {
	news = err.Error() != r.last
	r.last = err.Error()
	d = min(firstDelay<<min(r.failed, 16), maxDelay)
	r.failed++
	d = time.Duration(float64(d) * (1 - r.random()/2))
	if asked, ok := retryDelay(err); ok {
		d += asked
	}
	return d, news
}

// reset forgets failures after a success.
func (r *retrying) reset() { *r = retrying{random: r.random} }

// sleep waits, and reports whether the context has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
