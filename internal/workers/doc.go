// Package workers has work done by other processes of the same program, one thing at a time in each. What asks:
//
//	p, err := workers.Start[Question, Answer](exec.CommandContext(ctx, self, "--worker"))
//	defer p.End()
//	a, err := p.Ask(q)
//
// What answers, as that process:
//
//	err := workers.Serve(os.Stdin, os.Stdout, func(q Question) (Answer, error) { … })
//
// Questions and answers go through pipes, a JSON value each. A process ends when its input does.
package workers
