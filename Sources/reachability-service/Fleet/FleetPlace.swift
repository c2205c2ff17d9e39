import CommandKit
import Logging
import Reachability
import ReachableFleet

/// A site and its broker, from the command line and the environment.
struct FleetPlace: Sendable {
    let site: FleetName
    let broker: FleetBroker

    /// Judges settings; throws with status 64 and the remedy if something is missing or makes no sense.
    init(_ settings: BrokerSettings) throws(CommandFailure) {
        guard let url = settings.broker else {
            throw CommandFailure(
                .usage,
                "no broker is named; next: add --broker mqtts://broker.local, or set REACHABILITY_FLEET_BROKER")
        }
        guard let site = settings.site else {
            throw CommandFailure(.usage, "no site is named; next: add --site home, or set REACHABILITY_FLEET_SITE")
        }
        do throws(FleetError) {
            self.site = try FleetName(site)
        } catch {
            throw CommandFailure(.usage, "the site \(error)")
        }
        do throws(FleetError) {
            broker = try FleetBroker(
                url, user: settings.user, passwordFile: settings.passwordFile, caFile: settings.caFile,
                certificateFile: settings.certificateFile, keyFile: settings.keyFile)
        } catch {
            throw CommandFailure(.usage, "\(error)")
        }
    }

    /// Makes a member; throws with status 69 if the program was built without the trait MQTT.
    ///
    /// - Parameters:
    ///   - node: The name of this machine; `nil` for an observer.
    ///   - monitor: The monitor of the node's state.
    ///   - configuration: The options.
    func member(
        node: FleetName? = nil, monitor: ReachabilityMonitor, configuration: FleetMember.Configuration
    ) throws(CommandFailure) -> FleetMember {
        #if MQTT
        do throws(FleetError) {
            return try FleetMember(node: node, site: site, broker: broker, monitor: monitor, configuration: configuration)
        } catch {
            throw CommandFailure(.usage, "\(error)")
        }
        #else
        throw CommandFailure(
            .unavailable,
            "this build has no MQTT and cannot join a fleet; next: build it with `swift build --traits Service,MQTT`")
        #endif
    }

    /// Returns a name of a node or of a trigger; throws with status 64 if it is none.
    static func name(_ text: String, of option: String) throws(CommandFailure) -> FleetName {
        do throws(FleetError) {
            return try FleetName(text)
        } catch {
            throw CommandFailure(.usage, "\(option): \(error)")
        }
    }
}

extension CommandFailure {
    /// Creates the failure of a fleet that stays unknown.
    init(_ error: FleetError, of site: FleetName) {
        let status: ExitStatus =
            switch error.code {
            case .refused: .notPermitted
            case .unusableFile: .noInput
            default: .unknown
            }
        self.init(status, "the site \(site) is unknown: \(error)")
    }
}

/// The log of a member: its warnings and news become messages of the command.
struct FleetLog: LogHandler {
    var logLevel = Logger.Level.info
    var metadata = Logger.Metadata()
    private let say: @Sendable (_ level: Logger.Level, _ text: String) -> Void

    private init(_ say: @escaping @Sendable (Logger.Level, String) -> Void) { self.say = say }

    /// Returns a logger that passes each line on, with its metadata behind it.
    static func logger(_ say: @escaping @Sendable (Logger.Level, String) -> Void) -> Logger {
        Logger(label: "fleet") { _ in FleetLog(say) }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        // Attempts of the member's bus: each new failure has a line of the member's own.
        if event.metadata?["retry.job.id"] != nil { return }
        // Sentences about failures name the broker themselves.
        let metadata = (event.metadata ?? [:]).filter { $0.key != "broker" || event.level < .warning }
        let details = metadata.map { "\($0): \($1)" }.sorted().joined(separator: ", ")
        say(event.level, details.isEmpty ? "\(event.message)" : "\(event.message) (\(details))")
    }
}
