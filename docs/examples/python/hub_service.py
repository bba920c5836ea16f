from smelt.hub.hub import Hub
from smelt.hub.service import Rate, Settings, create_app

hub = Hub.init("my-hub")
few = {"read": Rate(burst=300, per_minute=600), "think": Rate(burst=5, per_minute=10), "submit": Rate(1, 1)}
app = create_app(
    hub, settings=Settings(title="Our hub", upload_bytes=50_000_000, hosts=("hub.example.org",), rates=few)
)
assert "/api/v1/select" in app.openapi()["paths"]
hub.close()
