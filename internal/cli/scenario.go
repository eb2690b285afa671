package cli

import (
	"fmt"
	"strings"
)

// SplitFileName splits FILE:NAME, the value of a flag.
func SplitFileName(flag, arg string) (path, name string, err error) {
	colon := strings.LastIndexByte(arg, ':')
	if colon <= 0 || colon == len(arg)-1 {
		return "", "", UsageError{fmt.Errorf("--%s: %q is not FILE:NAME", flag, arg)}
	}
	return arg[:colon], arg[colon+1:], nil
}
