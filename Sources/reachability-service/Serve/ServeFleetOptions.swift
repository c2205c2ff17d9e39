import ArgumentParser
import CommandKit
import ReachableFleet

/// The options of `serve` that announce this machine to a fleet.
struct ServeFleetOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            Announce this machine under this name to the site of --site at the broker of --broker, and show the site's nodes; or \
            none. Default: $REACHABILITY_FLEET_NODE, or none.
            """,
            valueName: "name|none"))
    var announce: String?

    @OptionGroup(title: "Options of the fleet") var broker: BrokerOptions

    /// The variable of the environment that names the node where --announce is not given.
    static let variable = "REACHABILITY_FLEET_NODE"

    func validate() throws {
        if announce == "" { throw ValidationError("--announce is empty; next: write a name, or none") }
        if name(Program.environment) == nil, let option = broker.given.first {
            throw ValidationError("\(option) names a fleet, and this machine is not announced; next: add --announce, or omit it")
        }
    }

    /// Returns the name to announce; `nil` for none.
    func name(_ environment: (String) -> String?) -> String? {
        let name = announce ?? environment(Self.variable)
        return name == nil || name == "" || name == "none" ? nil : name
    }

    /// Returns the name and the place; `nil` if this machine is not announced.
    func place(_ environment: (String) -> String?) throws(CommandFailure) -> (node: FleetName, place: FleetPlace)? {
        guard let text = name(environment) else { return nil }
        let option = announce == nil ? Self.variable : "--announce"
        return (try FleetPlace.name(text, of: option), try FleetPlace(broker.settings(environment)))
    }
}
