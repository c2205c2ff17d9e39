import Foundation
import Reachability
import ReachableHTTP

func makeMonitor(asking url: URL, over network: some NetworkSource = KernelNetwork()) -> ReachabilityMonitor {
    var configuration = ReachabilityMonitor.Configuration()
    configuration.validator = HTTPPathValidator(url: url)  // the server answers with 204 and nothing else
    return ReachabilityMonitor(network, configuration: configuration)
}

func showPortals(of monitor: ReachabilityMonitor, show: (URL?) -> Void) async {
    for await transition in monitor.transitions {
        guard case .captivePortal(let page) = transition.current.validation else { continue }
        show(page.flatMap { URL(string: $0) })
    }
}
