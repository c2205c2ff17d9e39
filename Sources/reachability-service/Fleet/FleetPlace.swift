import CommandKit
import Logging
import Reachability
import ReachableFleet

/// A site and its broker, from the command line and the environment.
struct FleetPlace: Sendable {
    let site: FleetName
    let broker: FleetBroker

    /// Judges settings; throws with status 64 and the remedy if something is missing or makes no sense.
    init(_ settings: BrokerSettings) throws(FleetFailure) {
        guard let url = settings.broker else {
            throw FleetFailure(
                .usage,
                "no broker is named; next: add --broker mqtts://broker.local, or set REACHABILITY_FLEET_BROKER")
        }
        guard let site = settings.site else {
            throw FleetFailure(.usage, "no site is named; next: add --site home, or set REACHABILITY_FLEET_SITE")
        }
        do throws(FleetError) {
            self.site = try FleetName(site)
        } catch {
            throw FleetFailure(.usage, "the site \(error)")
        }
        do throws(FleetError) {
            broker = try FleetBroker(
                url, user: settings.user, passwordFile: settings.passwordFile, caFile: settings.caFile,
                certificateFile: settings.certificateFile, keyFile: settings.keyFile)
        } catch {
            throw FleetFailure(.usage, "\(error)")
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
    ) throws(FleetFailure) -> FleetMember {
        #if MQTT
        do throws(FleetError) {
            return try FleetMember(node: node, site: site, broker: broker, monitor: monitor, configuration: configuration)
        } catch {
            throw FleetFailure(.usage, "\(error)")
        }
        #else
        throw FleetFailure(
            .unavailable,
            "this build has no MQTT and cannot join a fleet; next: build it with `swift build --traits Service,MQTT`")
        #endif
    }

    /// Returns a name of a node or of a trigger; throws with status 64 if it is none.
    static func name(_ text: String, of option: String) throws(FleetFailure) -> FleetName {
        do throws(FleetError) {
            return try FleetName(text)
        } catch {
            throw FleetFailure(.usage, "\(option): \(error)")
        }
    }
}

/// A failure of a command on a fleet, with its exit status.
struct FleetFailure: Error, Hashable {
    var status: ExitStatus
    /// The problem and, after `next:`, the remedy.
    var message: String

    init(_ status: ExitStatus, _ message: String) { (self.status, self.message) = (status, message) }

    /// Creates the failure of a fleet that stays unknown.
    init(_ error: FleetError, of site: FleetName) {
        status =
            switch error.code {
            case .refused: .notPermitted
            case .unusableFile: .noInput
            default: .unknown
            }
        message = "the site \(site) is unknown: \(error)"
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
