package lines

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Diff is a unified diff of two texts of few lines in one hunk, empty if they are equal.
func Diff(from, to string, a, b []byte) string {
	if bytes.Equal(a, b) {
		return ""
	}
	x, y := slices.Collect(bytes.Lines(a)), slices.Collect(bytes.Lines(b))
	// same[i][j] is how many lines the rests from i and j have in common, in order.
	same := make([][]int, len(x)+1)
	for i := range same {
		same[i] = make([]int, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if same[i][j] = max(same[i+1][j], same[i][j+1]); bytes.Equal(x[i], y[j]) {
				same[i][j] = same[i+1][j+1] + 1
			}
		}
	}
	var out strings.Builder
	span := func(n int) string {
		if n == 0 {
			return "0,0"
		}
		return fmt.Sprintf("1,%d", n)
	}
	fmt.Fprintf(&out, "--- %s\n+++ %s\n@@ -%s +%s @@\n", from, to, span(len(x)), span(len(y)))
	line := func(sign byte, text []byte) {
		out.WriteByte(sign)
		if out.Write(text); !bytes.HasSuffix(text, []byte("\n")) {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
	for i, j := 0, 0; i < len(x) || j < len(y); {
		switch {
		case i < len(x) && j < len(y) && bytes.Equal(x[i], y[j]):
			line(' ', x[i])
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && same[i+1][j] >= same[i][j+1]:
			line('-', x[i])
			i++
		default:
			line('+', y[j])
			j++
		}
	}
	return out.String()
}
