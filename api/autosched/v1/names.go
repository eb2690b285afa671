package autoschedv1

import (
	"fmt"
	"strings"
)

// JobName returns schedulers/{scheduler}/jobs/{job} of the id of a job.
func JobName(scheduler, id string) string { return "schedulers/" + scheduler + "/jobs/" + EscapeID(id) }

// EscapeID makes any text a segment of a name that URLs have as it is: each byte that is not a letter, a digit or one
// of -._ becomes ~XX, and so do dots where there is nothing else.
func EscapeID(id string) string {
	dots := strings.Trim(id, ".") == ""
	var b strings.Builder
	for _, c := range []byte(id) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' ||
			c == '.' && !dots {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "~%02X", c)
		}
	}
	return b.String()
}
