package clitest

import "flag"

var Update = flag.Bool("update", false, "write the golden files again")
