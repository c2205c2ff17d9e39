internal import Reachability
public import ReachableJobs
internal import ReachableRetry

/// The job that stores a photo.
public struct StorePhoto: JobParameters {
    /// The name of the kind.
    public static let jobName = "store photo"
    /// The photo.
    public var photo: Photo
    /// The host of the server; `nil` waits for the internet.
    public var host: String?

    /// The versions of a photo are stored in their order.
    public var options: DurableOptions { .photo(photo, host, .normal) }
}

/// The job that stores a large photo: a kind of its own, because it waits for one more condition.
public struct StoreLargePhoto: JobParameters {
    /// The name of the kind.
    public static let jobName = "store large photo"
    /// The photo.
    public var photo: Photo
    /// The host of the server; `nil` waits for the internet.
    public var host: String?

    /// The versions of a photo are stored in their order, after smaller photos.
    public var options: DurableOptions { .photo(photo, host, .bulk) }
}

extension DurableOptions {
    // A version that the server refused must not hold up the next one.
    fileprivate static func photo(_ photo: Photo, _ host: String?, _ priority: JobPriority) -> DurableOptions {
        DurableOptions(
            to: host.map(Scope.host) ?? .internet, destination: "photos", priority: priority, serialKey: photo.name,
            continuesAfterFailure: true)
    }
}
