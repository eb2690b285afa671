package units

import (
	"regexp"
	"slices"
	"strings"
)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.:@+=,/%-]+$`)

// Command is a command line as a shell would read it.
func Command(words []string) string {
	quoted := slices.Clone(words)
	for i, w := range quoted {
		if !plainWord.MatchString(w) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
