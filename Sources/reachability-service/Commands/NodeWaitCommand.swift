import ArgumentParser
import CommandKit
import Reachability
import ReachableFleet

/// The subcommand `wait` with `--node`, which `reachability-watch` hands over.
struct NodeWaitCommand: ParsableCommand {
    static let configuration = WaitOptions.configuration(isShown: false)

    @OptionGroup var options: WaitOptions

    func run() {
        FleetProgram.run(in: options.target.namespacePath) { [options] in
            var nodes: [FleetName] = []
            for node in options.node { nodes.append(try FleetPlace.name(node, of: WaitOptions.nodeOption)) }
            let place = try FleetPlace(options.broker.settings(Program.environment))
            // A failure that only a person can end is worth a line: the wait would look like one for the node.
            let visit = try FleetVisit(place, say: { DescriptorOutput.printMessage($0) }, saysAll: options.verbose)
            var wait = NodeWait(
                visit: visit, scopes: options.target.destinations.isEmpty ? [] : options.target.scopes, nodes: nodes)
            wait.target = options.until == .satisfied ? .satisfied : .unsatisfied
            wait.timeout = options.timeout?.duration
            let outcome = await wait.run()
            if let error = outcome.error { return Program.report(error) }
            if options.verbose {
                let states = outcome.states.joined(separator: "; ")
                DescriptorOutput.printMessage(outcome.status == .no ? "timed out: \(states)" : states)
            }
            return outcome.status
        }
    }
}
