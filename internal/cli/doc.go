// Package cli is what the commands of oprec and opsim have in common: exit codes, one-line errors and
// a progress line.
//
//	func main() { cli.Main(newRootCmd()) }
//
// A command returns an error and cli chooses the exit code:
//
//	nil                      0  fine
//	cli.ErrFindings          1  findings or differences; what there is to say has been printed
//	cli.Usagef, FormatError  2  usage or bad input
//	anything else            3  could not run
//
// An error is printed as one line on standard error, after the program's name.
package cli
