"""What scripts/sdk-python-check runs with the installed wheel and nothing else."""

from importlib.metadata import metadata, version
from importlib.resources import files

import receipts_client
from receipts_client import Client, Use
from receipts_client.testing import FakeGateway, new_signer

assert "site-packages" in receipts_client.__file__, receipts_client.__file__
assert receipts_client.__version__ == version("receipts-client")
urls = dict(one.split(", ") for one in metadata("receipts-client").get_all("Project-URL"))
assert {"Homepage", "Documentation", "Source", "Changelog"} <= set(urls), urls
assert files(receipts_client).joinpath("py.typed").is_file()
with FakeGateway() as gateway:
    client = Client(gateway.url, "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10", new_signer())
    identifier = client.record(Use("https://news.example/1", "training", "a test", content="b"))
    assert client.close()
assert [receipt["receiptId"] for receipt in gateway.receipts] == [identifier]
print(f"receipts_client {version('receipts-client')} is installed and delivers")
