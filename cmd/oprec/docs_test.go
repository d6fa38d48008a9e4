package main

import (
	"testing"

	"github.com/opreplay/opreplay/internal/clitest"
)

func TestDocumentedCommands(t *testing.T) { clitest.DocumentedCommands(t, "oprec", newRootCmd) }
